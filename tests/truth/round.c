/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tests/truth/round.h"

#include <string.h>

#include "tests/truth/kit.h"

#define PINNED_BYTES ((size_t)1 << 20)
#define WHOLE_BYTES ((size_t)64 << 10) /* a larger block is read in parts */
#define PART_BYTES ((size_t)4 << 10)
#define AWAIT_EVERY_US 20

void round_init(struct round *round)
{
    void *pinned = NULL;
    MUST(cu.cuMemHostAlloc(&pinned, PINNED_BYTES, CU_MEMHOSTALLOC_PORTABLE));
    round->pinned = pinned;
    for (uint32_t i = 0; i < ROUND_STREAMS; i++)
        MUST(cu.cuEventCreate(&round->event[i], CU_EVENT_DISABLE_TIMING));
}

void round_fini(struct round *round)
{
    for (uint32_t i = 0; i < ROUND_STREAMS; i++)
        MUST(cu.cuEventDestroy(round->event[i]));
    MUST(cu.cuMemFreeHost(round->pinned));
}

/* stream_count for a stream that is not there. */
static uint32_t index_of(const struct round *round, CUstream stream)
{
    uint32_t index = 0;
    while (index < round->stream_count && round->stream[index] != stream)
        index++;
    return index;
}

bool round_has_room(const struct round *round, CUstream stream)
{
    return round->block_count < ROUND_BLOCKS &&
           PINNED_BYTES - round->pinned_used_bytes >= WHOLE_BYTES &&
           index_of(round, stream) < ROUND_STREAMS;
}

static void read_part(struct round *round, const struct block *block,
                      CUstream stream, size_t offset_bytes, size_t size_bytes)
{
    unsigned char *to = round->pinned + round->pinned_used_bytes;
    struct round_copy *copy = &round->copy[round->copy_count++];
    copy->address = block->address + offset_bytes;
    copy->stream = stream;
    copy->words = (const void *)to;
    copy->word_count = (uint32_t)(size_bytes / sizeof(block->word));
    copy->word = block->word;
    round->pinned_used_bytes += (size_bytes + 63) & ~(size_t)63;
    MUST(cu.cuMemcpyDtoHAsync(to, copy->address, size_bytes, stream));
}

void round_read(struct round *round, const struct block *block, CUstream stream,
                uint64_t random)
{
    uint32_t index = index_of(round, stream);
    size_t size_bytes = block->filled_bytes;
    round->stream[index] = stream;
    round->stream_count += index == round->stream_count;
    round->block_count++;
    if (size_bytes <= WHOLE_BYTES) {
        read_part(round, block, stream, 0, size_bytes);
        return;
    }
    read_part(round, block, stream, 0, PART_BYTES);
    read_part(round, block, stream,
              random % (size_bytes - PART_BYTES) / sizeof(block->word) *
                  sizeof(block->word),
              PART_BYTES);
    read_part(round, block, stream, size_bytes - PART_BYTES, PART_BYTES);
}

void round_close(struct round *round)
{
    for (uint32_t i = 0; i < round->stream_count; i++)
        MUST(cu.cuEventRecord(round->event[i], round->stream[i]));
    round->is_closed = true;
}

void round_await(struct round *round)
{
    for (uint32_t i = 0; i < round->stream_count; i++) {
        CUresult code;
        while ((code = cu.cuEventQuery(round->event[i])) ==
               CUDA_ERROR_NOT_READY)
            kit_pause_us(AWAIT_EVERY_US);
        MUST(code);
    }
}

static void compare(const struct round_copy *copy, struct world *world)
{
    /* Each word is the one before it, and the first is right. */
    if (copy->words[0] == copy->word &&
        memcmp(copy->words, copy->words + 1,
               (copy->word_count - 1) * sizeof(copy->word)) == 0)
        return;
    struct wrong wrong = {.stream = copy->stream, .expected = copy->word};
    for (uint32_t i = copy->word_count; i-- > 0;) {
        if (copy->words[i] == copy->word)
            continue;
        wrong.address = copy->address + i * sizeof(copy->word);
        wrong.found = copy->words[i];
        wrong.wrong_words++;
    }
    world_note_wrong(world, &wrong);
}

void round_compare(const struct round *round, struct world *world)
{
    for (uint32_t i = 0; i < round->copy_count; i++)
        compare(&round->copy[i], world);
}

void round_reopen(struct round *round)
{
    round->copy_count = 0;
    round->block_count = 0;
    round->done_count = 0;
    round->stream_count = 0;
    round->pinned_used_bytes = 0;
    round->is_closed = false;
}
