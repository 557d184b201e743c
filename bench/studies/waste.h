/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The parts of the program that measures waste. Each prints Markdown, writes
 * JSON Lines to `json` unless that is NULL, and returns false after saying what
 * failed.
 */
#ifndef MOIETY_BENCH_STUDIES_WASTE_H_
#define MOIETY_BENCH_STUDIES_WASTE_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <moiety/pool.h>

struct waste_options {
    const char *json_path; /* NULL: none */
    const char *driver;    /* NULL: MOIETY_DRIVER, as it is */
    bool is_all;
    bool is_help;
    uint64_t metadata_of_bytes; /* how the program calls itself; 0: by users */
};

/* Says which call failed, and why. False if it did. */
bool waste_check(moiety_status status, const char *call);

/* "1.5 MiB" in one of two buffers that are used in turn. */
const char *waste_size_text(uint64_t size_bytes);

bool waste_requests(const struct waste_options *options, FILE *json);
bool waste_fresh_pool(FILE *json);
bool waste_metadata(FILE *json);

/* In a process of its own: prints bytes and blocks. */
bool waste_metadata_child(uint64_t block_bytes);

#endif
