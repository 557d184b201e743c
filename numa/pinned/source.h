/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Pinned host memory as a binade_source: each reservation is mapped, bound,
 * touched, registered, and its placement read back. What the system refuses is
 * done without and noted, or refused in turn where the place is strict. A
 * failure leaves no memory and no registration behind.
 */
#ifndef BINADE_NUMA_PINNED_SOURCE_H_
#define BINADE_NUMA_PINNED_SOURCE_H_

#include "binade/source.h"
#include "numa/pinned/region.h"
#include "pool/driver/context.h"

struct binadei_pinned;

struct binadei_pinned_options {
    struct binadei_context *own_context; /* outlives the source */
    hwloc_topology_t topology;           /* outlives the source */
    binadei_nodeset nodes;               /* not empty */
    bool is_interleaved;
    bool is_foreign; /* the topology is not this machine's: nothing is bound */
    /* BINADE_HOST_ bits; those that exclude each other are refused before. */
    uint32_t flags;
    uint32_t thread_max; /* 0: by the CPUs of the nodes */
};

/* Calls nobody yet. BINADE_OK or BINADE_E_NO_HOST_MEMORY. */
BINADE_MUST_USE binade_status binadei_pinned_create(
    const struct binadei_pinned_options *options, struct binadei_pinned **out);
/* Everything was released, or is lost. Tries once more what the driver refused
 * to unpin. NULL does nothing. */
void binadei_pinned_destroy(struct binadei_pinned *pinned);

/* The table, whose functions any thread may call; they block in the kernel and
 * in the driver. */
binade_source binadei_pinned_source(struct binadei_pinned *pinned);

/* What the calling thread's reservations report to from now on; NULL: nobody.
 * It must stay where it is until then. */
void binadei_pinned_report_to(struct binadei_progress *to);

/* Any thread; for an instant under the lock. */
void binadei_pinned_stats(struct binadei_pinned *pinned,
                          binade_host_stats *out);
/* BINADE_OK or BINADE_E_FOREIGN. */
BINADE_MUST_USE binade_status binadei_pinned_device_address(
    struct binadei_pinned *pinned, const void *address, binade_devptr *out);
/* Why there was the last fallback: a message, "" if there was none. */
void binadei_pinned_reason(struct binadei_pinned *pinned, char *out,
                           size_t size_bytes);

#endif
