/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The command line of every program here: each declares its options in a table,
 * and getopt_long() reads them. What is wrong is said in one manner.
 */
#ifndef MOIETY_BENCH_BASE_COMMAND_LINE_H_
#define MOIETY_BENCH_BASE_COMMAND_LINE_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define COMMAND_OPTIONS_MAX 32U

/* "--NAME=VALUE", where one of `number` to `read` gets the value; "--NAME"
 * alone, where only `is_given` is set. The last one of a name wins. */
struct command_option {
    const char *name;
    /* Numbers, in this range. */
    uint64_t least;
    uint64_t most;
    uint64_t *number;
    uint32_t *number32;
    uint64_t *list; /* several, separated by commas: `list_max` at most */
    uint32_t *list_count;
    uint32_t list_max;
    bool is_bytes;     /* they may have a unit: 8GiB */
    const char **text; /* any but an empty one */
    /* False: the value is not accepted. */
    bool (*read)(const char *value, void *into);
    void *into;
    bool *is_given;
    /* What is said behind "--NAME=VALUE" of one that is not accepted. NULL: the
     * range, or that a name is wanted; or `read` has said it all. */
    const char *refusal;
};

struct command_line {
    const char *program; /* what messages begin with */
    /* What stands between a value and its range; NULL: that it is not
     * accepted. */
    const char *refusal;
    const struct command_option *options; /* a NULL name ends them */
    bool has_operands;                    /* arguments without "--" */
};

/* The index of the first operand in `argv`, behind which there are only
 * others; -1 after saying on standard error what is wrong. */
int command_line_read(const struct command_line *line, int argc, char **argv);

/* Decimal digits alone, and in the range. */
bool command_line_number(const char *text, uint64_t least, uint64_t most,
                         uint64_t *out);

/* Calls `take` with each item of a list with commas, and how long it is, until
 * one is not accepted. An empty list has one empty item. */
bool command_line_each(const char *list,
                       bool (*take)(const char *item, size_t length,
                                    void *into),
                       void *into);

/* For MOIETY_DRIVER, as long as no other thread runs; NULL: leave it as it is.
 * False: there is no memory. */
bool command_line_use_driver(const char *driver);

/* `bazel run` starts a program in a folder of its own and says which the user's
 * is: this goes there. False after saying why that cannot be. */
bool command_line_go_to_user(void);

/* Opens PATH with SUFFIX behind it to be written, as the user's folder has it,
 * without going there. NULL after saying why, of the option --json. */
FILE *command_line_create(const char *program, const char *path,
                          const char *suffix);

#endif
