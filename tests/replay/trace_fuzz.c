/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The reader of traces on the fuzzer's bytes: it may not read or write where it
 * must not, a second reading finds what the first found, and two blocks of a
 * window never have the same number. The corpus is replayed by fuzz_corpus_test;
 * to look for more:
 *
 *     bazel run --config=fuzz //tests/replay:trace_fuzz -- DIR
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bench/replay/trace/source.h"

#define BLOCKS_LOOKED_AT 4096U

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void demand(bool is_so, const char *what)
{
    if (is_so)
        return;
    (void)fprintf(stderr, "trace_fuzz: %s\n", what);
    abort();
}

/* Each block: allocated once at the most, then freed once at the most. */
static void check_window(const struct replay_source *source, uint8_t *states)
{
    uint8_t changed[BLOCKS_LOOKED_AT] = {0};
    for (uint32_t i = 0; i < source->op_count; i++) {
        const struct replay_op *op = &source->ops[i];
        demand(op->block < source->block_room, "a block beyond the room");
        demand(op->thread < source->run_threads, "a thread beyond the run's");
        if (op->block >= BLOCKS_LOOKED_AT)
            continue;
        demand(states[op->block] == !op->is_alloc, "a block out of order");
        demand(!op->is_alloc || !changed[op->block], "a number given twice");
        states[op->block] = op->is_alloc;
        changed[op->block] = 1;
    }
}

static void check_windows(struct replay_source *source)
{
    uint8_t states[BLOCKS_LOOKED_AT] = {0};
    struct replay_about before = source->about;
    enum replay_result result;
    demand(replay_source_rewind(source), "it cannot be read again");
    while ((result = replay_source_next(source)) == REPLAY_MORE)
        check_window(source, states);
    demand(result == REPLAY_END, "the second reading refuses it");
    demand(before.operation_count == source->trace.operation_count &&
               before.peak_live_bytes == source->trace.peak_live_bytes,
           "the second reading differs");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct replay_source source;
    char path[64];
    int file = memfd_create("trace", MFD_CLOEXEC);
    if (file < 0 || write(file, data, size) != (ssize_t)size)
        abort();
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
    if (replay_source_open(&source, path, (uint32_t)(size % 5))) {
        check_windows(&source);
        replay_source_close(&source);
    } else {
        demand(strlen(source.trace.error.text) > 0, "refused without a word");
    }
    (void)close(file);
    return 0;
}
