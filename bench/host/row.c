/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "bench/host/row.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* The end of a row that has neither. Text cannot hold it: its quotes are
 * escaped. */
#define NO_ERROR "\"error\":null"

static uint64_t process;

static void print_text(const char *text)
{
    (void)putchar('"');
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            (void)putchar('\\');
        (void)putchar((unsigned char)*text < ' ' ? ' ' : *text);
    }
    (void)putchar('"');
}

void host_row_process(uint64_t number)
{
    process = number;
}

void host_row_begin(const char *what, const char *subject)
{
    (void)printf("{\"what\":\"%s\",\"subject\":", what);
    if (subject)
        print_text(subject);
    else
        (void)fputs("null", stdout);
    (void)printf(",\"process\":%" PRIu64, process);
}

void host_row_text(const char *key, const char *value)
{
    (void)printf(",\"%s\":", key);
    print_text(value);
}

void host_row_count(const char *key, uint64_t value)
{
    (void)printf(",\"%s\":%" PRIu64, key, value);
}

void host_row_flag(const char *key, bool value)
{
    (void)printf(",\"%s\":%s", key, value ? "true" : "false");
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
    (void)fputs(",\"skipped\":null,\"error\":", stdout);
    print_text(*why ? why : "failed without a message");
    end();
}

void host_row_skip(const char *why)
{
    (void)fputs(",\"skipped\":", stdout);
    print_text(why);
    (void)fputs("," NO_ERROR, stdout);
    end();
}

bool host_row_is_failure(const char *line)
{
    return !strstr(line, NO_ERROR);
}
