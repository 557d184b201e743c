/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "bench/base/json.h"

#include <inttypes.h>

static void write_byte(FILE *file, unsigned char byte, bool is_ascii)
{
    if (byte < 0x20 || byte == 0x7f)
        (void)fprintf(file, "\\u%04x", byte);
    else if (byte >= 0x80 && is_ascii)
        (void)fputc('?', file);
    else if (byte == '"' || byte == '\\')
        (void)fprintf(file, "\\%c", byte);
    else
        (void)fputc(byte, file);
}

void json_text(FILE *file, const char *text, bool is_ascii)
{
    (void)fputc('"', file);
    for (; *text; text++)
        write_byte(file, (unsigned char)*text, is_ascii);
    (void)fputc('"', file);
}

void json_text_field(FILE *file, const char *key, const char *text)
{
    (void)fprintf(file, ",\"%s\":", key);
    json_text(file, text, false);
}

void json_flag_field(FILE *file, const char *key, bool is_set)
{
    (void)fprintf(file, ",\"%s\":%s", key, is_set ? "true" : "false");
}

void json_number(FILE *file, uint64_t number)
{
    if (number == UINT64_MAX)
        (void)fputs("null", file);
    else
        (void)fprintf(file, "%" PRIu64, number);
}
