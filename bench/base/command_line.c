/*
 * SPDX-License-Identifier: Apache-2.0
 */
#define _GNU_SOURCE
#include "bench/base/command_line.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ITEM_BYTES 24U
/* What getopt_long() returns for the first option: above all characters. */
#define FIRST_VALUE 256

static const char not_accepted[] = " is not accepted: ";

bool command_line_number(const char *text, uint64_t least, uint64_t most,
                         uint64_t *out)
{
    char *end;
    if (*text < '0' || *text > '9')
        return false;
    errno = 0;
    *out = strtoull(text, &end, 10);
    return !*end && !errno && *out >= least && *out <= most;
}

/* A number that may end in a unit: 8GiB or 8G. */
static bool read_bytes(const struct command_option *option, const char *text,
                       uint64_t *out)
{
    static const char units[] = "KMGT";
    char digits[ITEM_BYTES];
    size_t length = strspn(text, "0123456789");
    const char *unit = text[length] ? strchr(units, text[length]) : NULL;
    unsigned order = unit ? 10 * ((unsigned)(unit - units) + 1) : 0;
    const char *end = text + length + (unit != NULL);
    if (length >= sizeof digits || (*end && (!unit || strcmp(end, "iB") != 0)))
        return false;
    (void)snprintf(digits, sizeof digits, "%.*s", (int)length, text);
    if (!command_line_number(digits, 0, option->most >> order, out))
        return false;
    *out <<= order;
    return *out >= option->least;
}

static bool read_number(const struct command_option *option, const char *text,
                        uint64_t *out)
{
    if (option->is_bytes)
        return read_bytes(option, text, out);
    return command_line_number(text, option->least, option->most, out);
}

static bool refuse(const struct command_line *line,
                   const struct command_option *option, const char *value)
{
    (void)fprintf(stderr, "%s: --%s=%s", line->program, option->name, value);
    if (option->refusal)
        (void)fprintf(stderr, "%s\n", option->refusal);
    else if (option->text)
        (void)fprintf(stderr, "%sa name is wanted\n", not_accepted);
    else
        (void)fprintf(stderr, "%s%" PRIu64 " to %" PRIu64 "%s\n",
                      line->refusal ? line->refusal : not_accepted,
                      option->least, option->most,
                      option->is_bytes ? ", or with a unit, as 8GiB" : "");
    return false;
}

/* A list of numbers that is being read. */
struct numbers {
    const struct command_line *line;
    const struct command_option *option;
    const char *value;
};

static bool take_number(const char *text, size_t length, void *into)
{
    const struct numbers *numbers = into;
    const struct command_option *option = numbers->option;
    char item[ITEM_BYTES];
    (void)snprintf(item, sizeof(item), "%.*s", (int)length, text);
    return (*option->list_count < option->list_max &&
            read_number(option, item,
                        &option->list[(*option->list_count)++])) ||
           refuse(numbers->line, option,
                  option->refusal ? numbers->value : item);
}

static bool read_list(const struct command_line *line,
                      const struct command_option *option, const char *value)
{
    struct numbers numbers = {line, option, value};
    *option->list_count = 0;
    return command_line_each(value, take_number, &numbers);
}

static bool read_value(const struct command_line *line,
                       const struct command_option *option, const char *value)
{
    uint64_t number;
    if (option->list)
        return read_list(line, option, value);
    if (option->read)
        return option->read(value, option->into) ||
               (option->refusal && refuse(line, option, value));
    if (option->text) {
        *option->text = value;
        return *value || refuse(line, option, value);
    }
    if (!read_number(option, value, &number))
        return refuse(line, option, value);
    if (option->number32)
        *option->number32 = (uint32_t)number;
    else
        *option->number = number;
    return true;
}

static bool takes_value(const struct command_option *option)
{
    return option->number || option->number32 || option->list || option->text ||
           option->read;
}

static void make_table(const struct command_option *options,
                       struct option out[COMMAND_OPTIONS_MAX + 1])
{
    size_t count = 0;
    for (; options[count].name && count < COMMAND_OPTIONS_MAX; count++) {
        bool has_value = takes_value(&options[count]);
        out[count] = (struct option){.name = options[count].name,
                                     .has_arg = has_value ? required_argument
                                                          : no_argument,
                                     .val = FIRST_VALUE + (int)count};
    }
    out[count] = (struct option){0};
}

/* The option that begins as the argument does, for most letters; NULL if they
 * are fewer than three. */
static const char *nearest_option(const struct command_line *line,
                                  const char *argument)
{
    const char *found = NULL;
    size_t most = 2;
    if (strncmp(argument, "--", 2) != 0)
        return NULL;
    for (size_t i = 0; line->options[i].name; i++) {
        const char *name = line->options[i].name;
        size_t same = 0;
        while (name[same] && name[same] == argument[2 + same])
            same++;
        if (same > most) {
            most = same;
            found = name;
        }
    }
    return found;
}

static int refuse_argument(const struct command_line *line,
                           const char *argument)
{
    const char *nearest = nearest_option(line, argument);
    (void)fprintf(stderr, "%s: %s is not accepted%s%s%s; --help says what is\n",
                  line->program, argument, nearest ? ", did you mean --" : "",
                  nearest ? nearest : "", nearest ? "?" : "");
    return -1;
}

/* What getopt_long() did not know: it stays at an argument with a single dash
 * until it is through with its letters. */
static const char *unknown_argument(char **argv)
{
    const char *next = argv[optind];
    bool has_letters = next && next[0] == '-' && next[1] && next[1] != '-';
    return has_letters ? next : argv[optind - 1];
}

static bool read_option(const struct command_line *line,
                        const struct command_option *option)
{
    if (option->is_given)
        *option->is_given = true;
    return !takes_value(option) || read_value(line, option, optarg);
}

int command_line_read(const struct command_line *line, int argc, char **argv)
{
    struct option table[COMMAND_OPTIONS_MAX + 1];
    int value;
    make_table(line->options, table);
    opterr = 0; /* what is wrong is said here, in one manner */
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): the only thread so far. */
    while ((value = getopt_long(argc, argv, "", table, NULL)) != -1) {
        if (value < FIRST_VALUE)
            return refuse_argument(line, unknown_argument(argv));
        if (!read_option(line, &line->options[value - FIRST_VALUE]))
            return -1;
    }
    return optind == argc || line->has_operands
               ? optind
               : refuse_argument(line, argv[optind]);
}

bool command_line_each(const char *list,
                       bool (*take)(const char *item, size_t length,
                                    void *into),
                       void *into)
{
    for (;; list++) {
        size_t length = strcspn(list, ",");
        if (!take(list, length, into))
            return false;
        list += length;
        if (!*list)
            return true;
    }
}

bool command_line_use_driver(const char *driver)
{
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): the only thread so far. */
    return !driver || setenv("MOIETY_DRIVER", driver, 1) == 0;
}

bool command_line_go_to_user(void)
{
    const char *folder = getenv("BUILD_WORKING_DIRECTORY");
    if (!folder || chdir(folder) == 0)
        return true;
    perror(folder);
    return false;
}

FILE *command_line_create(const char *program, const char *path,
                          const char *suffix)
{
    const char *folder = getenv("BUILD_WORKING_DIRECTORY");
    char name[PATH_MAX];
    if (*path == '/' || !folder)
        (void)snprintf(name, sizeof(name), "%s%s", path, suffix);
    else
        (void)snprintf(name, sizeof(name), "%s/%s%s", folder, path, suffix);
    FILE *file = fopen(name, "we");
    if (!file) {
        /* NOLINTNEXTLINE(concurrency-mt-unsafe): the only thread so far. */
        const char *why = strerror(errno);
        (void)fprintf(stderr, "%s: --json=%s: %s\n", program, path, why);
    }
    return file;
}
