/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Pinned host memory as a moiety_source: each reservation is mapped, bound,
 * touched, registered, and its placement read back. What the system refuses is
 * done without and noted, or refused in turn where the place is strict. A
 * failure leaves no memory and no registration behind.
 */
#ifndef MOIETY_NUMA_PINNED_SOURCE_H_
#define MOIETY_NUMA_PINNED_SOURCE_H_

#include "moiety/source.h"
#include "numa/pinned/runway.h"
#include "pool/driver/context.h"

struct moietyi_pinned;

struct moietyi_pinned_options {
    struct moietyi_context *own_context; /* outlives the source */
    hwloc_topology_t topology;           /* outlives the source */
    moietyi_nodeset nodes;               /* not empty */
    bool is_interleaved;
    bool is_foreign; /* the topology is not this machine's: nothing is bound */
    /* MOIETY_HOST_ bits; those that exclude each other are refused before. */
    uint32_t flags;
    uint32_t thread_max; /* 0: by the CPUs of the nodes */
    /* Edge: none; relaxed, a number. NULL, or the cancels that end growths. */
    const moietyi_atomic_word *cancels;
};

/* Calls nobody yet. MOIETY_OK or MOIETY_E_NO_HOST_MEMORY. */
MOIETY_MUST_USE moiety_status moietyi_pinned_create(
    const struct moietyi_pinned_options *options, struct moietyi_pinned **out);
/* Everything was released, or is lost. Tries earlier refusals to unpin once
 * more. NULL does nothing. */
void moietyi_pinned_destroy(struct moietyi_pinned *pinned);

/* The table, whose functions any thread may call; they block in the kernel and
 * in the driver. */
moiety_source moietyi_pinned_source(struct moietyi_pinned *pinned);

/* A reserve by the calling thread, whose reservations report to its progress and
 * take their memory from its runway. Reserves of a thread nest. */
struct moietyi_reserve {
    struct moietyi_pinned *pinned;
    struct moietyi_progress progress; /* the caller has begun it */
    struct moietyi_runway runway;
    struct moietyi_reserve *outer;
    uint64_t pinned_at_ns; /* when the last region was pinned; 0: none was */
};

/* Begins a reserve of so many bytes, unless there is no room for all of them. If
 * addresses or pages for all are missing, it goes region by region. MOIETY_OK; MOIETY_E_NO_PINNED_MEMORY, or
 * MOIETY_E_UNSUPPORTED for a strict place that cannot be bound: then it has not
 * begun. It stays where it is until its end. */
MOIETY_MUST_USE moiety_status moietyi_pinned_reserve_begin(
    struct moietyi_pinned *pinned, struct moietyi_reserve *reserve,
    size_t size_bytes);
/* Waits until the next `size_bytes` can be pinned without a wait, and until others
 * have had the driver for 200 us. MOIETY_OK, MOIETY_E_INTERRUPTED or
 * MOIETY_E_NO_PINNED_MEMORY. */
MOIETY_MUST_USE moiety_status moietyi_pinned_reserve_await(
    struct moietyi_reserve *reserve, size_t size_bytes);
void moietyi_pinned_reserve_end(struct moietyi_reserve *reserve);

/* The bytes that the driver pins in so many ns, by the last 8 registrations;
 * UINT64_MAX before the first. */
uint64_t moietyi_pinned_bytes_in(struct moietyi_pinned *pinned, uint64_t ns);

/* Any thread; for an instant under the lock. */
void moietyi_pinned_stats(struct moietyi_pinned *pinned,
                          moiety_host_stats *out);
/* MOIETY_OK or MOIETY_E_FOREIGN. */
MOIETY_MUST_USE moiety_status moietyi_pinned_device_address(
    struct moietyi_pinned *pinned, const void *address, moiety_devptr *out);
/* Children of a fork have all of its memory from now on. */
void moietyi_pinned_open_to_children(struct moietyi_pinned *pinned);
/* Why there was the last fallback: a message, "" if there was none. */
void moietyi_pinned_reason(struct moietyi_pinned *pinned, char *out,
                           size_t size_bytes);

#endif
