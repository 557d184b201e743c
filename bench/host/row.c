/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "bench/host/row.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "bench/base/json.h"

/* The end of a row that has neither. Text cannot hold it: its quotes are
 * escaped. */
#define NO_ERROR "\"error\":null"

static uint64_t process;

void host_row_process(uint64_t number)
{
    process = number;
}

void host_row_begin(const char *what, const char *subject)
{
    (void)printf("{\"what\":\"%s\",\"subject\":", what);
    if (subject)
        json_text(stdout, subject, false);
    else
        (void)fputs("null", stdout);
    (void)printf(",\"process\":%" PRIu64, process);
}

void host_row_text(const char *key, const char *value)
{
    json_text_field(stdout, key, value);
}

void host_row_count(const char *key, uint64_t value)
{
    (void)printf(",\"%s\":%" PRIu64, key, value);
}

void host_row_flag(const char *key, bool value)
{
    json_flag_field(stdout, key, value);
}

void host_row_number(const char *key, double value)
{
    (void)printf(",\"%s\":%.*f", key, value < 100 ? 4 : 2, value);
}

/* At once: a reader gets it before the next measurement begins. */
static void end(void)
{
    (void)fputs("}\n", stdout);
    (void)fflush(stdout);
}

void host_row_end(void)
{
    (void)fputs(",\"skipped\":null," NO_ERROR, stdout);
    end();
}

void host_row_fail(const char *why)
{
    (void)fputs(",\"skipped\":null", stdout);
    json_text_field(stdout, "error", *why ? why : "failed without a message");
    end();
}

void host_row_skip(const char *why)
{
    json_text_field(stdout, "skipped", why);
    (void)fputs("," NO_ERROR, stdout);
    end();
}

bool host_row_is_failure(const char *line)
{
    return !strstr(line, NO_ERROR);
}
