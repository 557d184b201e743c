/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A serial model of heaps of extents: of a core that keeps the free memory of each
 * stream by size, in two ages, beside memory that is done; with caches of a thread
 * and stream in front, and handles that move before the pool grows. It says how much
 * memory a rule takes, not how long a call does. One mutex around each call.
 *
 * An allocation of a stream gets the shortest extent that is long enough, of those
 * that its stream freed and those that are done. If there is none, what others freed
 * and is over becomes done, and only then the pool grows: where fewest handles lack,
 * by handles that are wholly free and done, as far as the budget of moves goes, and
 * by new ones. A free joins neighbours as the variant says.
 *
 * Not modelled: limits, shards, inboxes, and steals of caches.
 */
#ifndef MOIETY_BENCH_HEAPS_MACHINE_H_
#define MOIETY_BENCH_HEAPS_MACHINE_H_

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The free memory that a free joins, beside its stream's of the same age. */
enum heap_absorb {
    HEAP_ABSORBS_NOTHING,
    HEAP_ABSORBS_CLOSED,  /* what the stream freed in the closed age */
    HEAP_ABSORBS_BOUNDED, /* also what is done and not longer than the block */
    HEAP_ABSORBS_ALL,     /* also whatever is done */
};

struct heap_rules {
    enum heap_absorb absorb;
    bool is_small_apart; /* blocks of up to 1 MiB lie in pages of their own */
    bool is_fixed; /* each growth is a segment, which nothing moves from */
    uint32_t handle_pages;      /* of 2 MiB */
    uint32_t moves_most;        /* in the bucket; 0: nothing moves */
    uint32_t calls_of_a_move;   /* as many fill the bucket by one */
    bool is_own_at_once;        /* what the stream freed moves for it at once */
    uint64_t cache_bytes;       /* of a thread and stream; 0: none */
    uint64_t cache_class_bytes; /* of one size in it */
    uint64_t cached_bytes_max;  /* larger blocks are not cached */
};

/* Events of a device. Called under the mutex. */
struct heap_device {
    uint32_t stream_count;
    /* Behind all work of the stream; NULL: nothing was recorded. */
    void *(*record)(uint32_t stream);
    bool (*is_over)(void *event);
    void (*forget)(void *event);
};

struct heap_machine;

/* NULL: there is no host memory. */
struct heap_machine *heap_create(const struct heap_rules *rules,
                                 const struct heap_device *device);
void heap_destroy(struct heap_machine *machine);

/* An address, never 0. */
uint64_t heap_alloc(struct heap_machine *machine, uint32_t thread,
                    uint64_t size_bytes, uint32_t stream);

/* For heap_free(), beside a stream's number. */
#define HEAP_STREAM_ANY UINT32_MAX
#define HEAP_STREAM_DONE (UINT32_MAX - 1)
/* Aborts where there is no such block. */
void heap_free(struct heap_machine *machine, uint32_t thread, uint64_t address,
               uint32_t stream);

struct heap_figures {
    uint64_t handed_bytes;
    uint64_t cached_bytes;
    uint64_t waiting_bytes; /* freed, of streams */
    uint64_t reserved_bytes;
    uint64_t move_count; /* of handles */
    uint64_t growth_count;
    uint64_t event_count;
};
/* O(free extents). */
void heap_measure(struct heap_machine *machine, struct heap_figures *out);
uint64_t heap_reserved_bytes(struct heap_machine *machine);

/* NULL, or the first rule of the model that its state breaks: extents tile the
 * address space, neighbours that should be joined are, pages of small blocks have
 * nothing else. O(extents). */
const char *heap_check(struct heap_machine *machine);

#ifdef __cplusplus
}
#endif

#endif
