/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "bench/replay/json.h"

#include <inttypes.h>
#include <string.h>

#include "bench/replay/trace/fields.h"
#include "bench/subjects/subject.h"

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

void replay_json_text(FILE *file, const char *text)
{
    /* Long names too are shown, without what is not ASCII. */
    bool is_ascii = !replay_is_text(text, strlen(text));
    (void)fputc('"', file);
    for (; *text; text++)
        write_byte(file, (unsigned char)*text, is_ascii);
    (void)fputc('"', file);
}

void replay_json_bytes(FILE *file, uint64_t number)
{
    if (number == SUBJECT_UNKNOWN)
        (void)fputs("null", file);
    else
        (void)fprintf(file, "%" PRIu64, number);
}
