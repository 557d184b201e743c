/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The source of pinned memory, for tests: on this machine's own topology.
 */
#ifndef MOIETY_TESTS_SUPPORT_PINNED_PROBE_H_
#define MOIETY_TESTS_SUPPORT_PINNED_PROBE_H_

#include <stdbool.h>
#include <stdint.h>

#include "moiety/host.h"
#include "moiety/source.h"

#ifdef __cplusplus
extern "C" {
#endif

struct pinned_probe;

/* The first node that this process may use. */
unsigned pinned_probe_node(void);

/* A source on that node, in `context`, with `thread_count` threads; NULL, with
 * a message, when it cannot be made. */
struct pinned_probe *pinned_probe_create(moiety_context context, uint32_t flags,
                                         uint32_t thread_count);
void pinned_probe_destroy(struct pinned_probe *probe);
moiety_source pinned_probe_source(struct pinned_probe *probe);
moiety_host_stats pinned_probe_stats(struct pinned_probe *probe);
moiety_status pinned_probe_device_address(struct pinned_probe *probe,
                                          const void *address,
                                          moiety_devptr *out);
/* Valid until the next call. */
const char *pinned_probe_reason(struct pinned_probe *probe);
/* How far a crew comes that may work on so much of `size_bytes`. */
uint64_t pinned_probe_crew_bytes(uint64_t size_bytes, uint64_t granted_bytes);
/* One reservation that reports, from a runway. */
moiety_status pinned_probe_reserve(struct pinned_probe *probe,
                                   uint64_t size_bytes,
                                   moiety_host_progress_fn *report, void *data,
                                   moiety_devptr *out);

#ifdef __cplusplus
}
#endif

#endif
