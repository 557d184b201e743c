/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * How it goes, while it goes: a line for each phase, which moves on a terminal.
 */
#ifndef BINADE_BENCH_SERVER_LIVE_H_
#define BINADE_BENCH_SERVER_LIVE_H_

#include <stdbool.h>
#include <stdint.h>

#include "bench/server/server.h"

struct server_live {
    bool is_terminal;
    const char *subject; /* of the phase under way */
    unsigned round;
};

void server_live_init(struct server_live *out);
void server_live_begin(struct server_live *live, const char *subject,
                       unsigned round);
/* To be called now and then; prints nothing where lines cannot move. */
void server_live_update(const struct server_live *live, struct server *server,
                        uint64_t elapsed_ns);
void server_live_end(const struct server_live *live, struct server *server,
                     uint64_t elapsed_ns);

#endif
