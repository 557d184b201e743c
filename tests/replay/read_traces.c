/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Reads each file that is named and prints a line for it: "whole", operations,
 * allocations and frees, peak live bytes; or "wrong", the line, why.
 */
#include <inttypes.h>
#include <stdio.h>

#include "bench/replay/trace/source.h"

/* False: windows and what was read do not agree. */
static bool read_windows(struct replay_source *source)
{
    uint64_t calls = 0;
    enum replay_result result;
    if (!replay_source_rewind(source))
        return false;
    while ((result = replay_source_next(source)) == REPLAY_MORE)
        calls += source->op_count;
    return result == REPLAY_END && calls <= source->about.call_count;
}

int main(int argc, char **argv)
{
    static struct replay_source source;
    for (int i = 1; i < argc; i++) {
        if (!replay_source_open(&source, argv[i], 0)) {
            printf("wrong %" PRIu64 " %s\n", source.trace.error.line,
                   source.trace.error.text);
            continue;
        }
        if (!read_windows(&source))
            return 1;
        printf("whole %" PRIu64 " %" PRIu64 " %" PRIu64 "\n",
               source.about.operation_count, source.about.call_count,
               source.about.peak_live_bytes);
        replay_source_close(&source);
    }
    return 0;
}
