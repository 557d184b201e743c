/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Where inputs wait for their copy to the device and responses arrive from it:
 * a host arena nearest to the device. There is one for all subjects, which are
 * compared by how they give out device memory: a cuMemHostAlloc() for each
 * request would have shown only what pinning costs.
 */
#ifndef MOIETY_BENCH_SERVER_STAGING_H_
#define MOIETY_BENCH_SERVER_STAGING_H_

#include <stdbool.h>

#include <moiety/host.h>
#include <moiety/moiety.h>

#include "bench/server/subjects/device.h"

/* How the CPU asks for the memory that it writes an input to. */
enum server_staging_kind {
    SERVER_STAGING_ARENA, /* as it must: when no copy reads it any more */
    /* A planted bug: in the order of the stream, which does not order the
     * CPU. It shows that the check of bytes finds a broken host rule. */
    SERVER_STAGING_PLANTED
};

struct server_staging {
    moiety_host *arena;
    const struct server_device *device;
    enum server_staging_kind kind;
};

/* What is known of it; all 0 and "" where there is none. */
struct server_staging_facts {
    moiety_host_stats stats;
    char place[256];     /* moiety_host_report() */
    uint64_t lost_bytes; /* never freed; known when it is closed */
};

/* Makes the arena and reserves all that `thread_count` threads get; the device
 * stays as it is until it is closed. After a failure, too, it is to be closed;
 * moiety_last_error_message() says why. */
MOIETY_MUST_USE moiety_status server_staging_open(
    const struct server_device *device, enum server_staging_kind kind,
    unsigned thread_count, struct server_staging *out);

/* Work that uses its memory is over. `*out` is how it was. */
void server_staging_close(struct server_staging *staging,
                          struct server_staging_facts *out);

/* Says in some lines where it is and why there, how many pages were asked for
 * and how many are there, and of which kind they are. */
void server_staging_print(const struct server_staging_facts *facts,
                          const moiety_caps *caps, int device);

/* How it is now. */
void server_staging_look(const struct server_staging *staging,
                         struct server_staging_facts *out);

/* The kind of pages that most of it is in. */
const char *server_staging_page_kind(const moiety_host_stats *stats);

/* Lets the CPU write `bytes` where a copy finds them, and queues that copy on
 * the stream with this index. The bytes are the caller's again at once. */
MOIETY_MUST_USE moiety_status
server_staging_send(const struct server_staging *staging, CUdeviceptr to,
                    const void *bytes, size_t size_bytes, unsigned stream);

/* Memory that work on this stream will write before the CPU reads it. */
MOIETY_MUST_USE moiety_status
server_staging_expect(const struct server_staging *staging, size_t size_bytes,
                      unsigned stream, void **out);
/* Gives that back; `is_over`: no work uses it any more. */
MOIETY_MUST_USE moiety_status
server_staging_end(const struct server_staging *staging, void *address,
                   unsigned stream, bool is_over);

#endif
