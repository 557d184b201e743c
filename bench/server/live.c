/*
 * SPDX-License-Identifier: Apache-2.0
 */
#define _POSIX_C_SOURCE 200809L
#include "bench/server/live.h"

#include <stdio.h>
#include <unistd.h>

#include "bench/server/comparison.h"
#include "bench/server/phase.h"

void server_live_init(struct server_live *out)
{
    *out = (struct server_live){.is_terminal = isatty(STDOUT_FILENO)};
}

void server_live_begin(struct server_live *live, const char *subject,
                       unsigned round)
{
    live->subject = subject;
    live->round = round;
}

static void print_line(const struct server_live *live, struct server *server,
                       uint64_t elapsed_ns)
{
    struct server_tally tally = {0};
    server_phase_tally(server, &tally);
    printf("round %u/%u   %-12s %7.0f requests/s  p50 %8.3f ms  p99 %8.3f ms",
           live->round + 1, SERVER_ROUNDS, live->subject,
           (double)tally.counts.requests / ((double)elapsed_ns / 1e9),
           histogram_quantile_ns(&tally.latency, 0.50) / 1e6,
           histogram_quantile_ns(&tally.latency, 0.99) / 1e6);
    if (tally.counts.wrong_bytes)
        printf("  WRONG BYTES");
}

void server_live_update(const struct server_live *live, struct server *server,
                        uint64_t elapsed_ns)
{
    if (!live->is_terminal)
        return;
    print_line(live, server, elapsed_ns);
    (void)fputs("\033[K\r", stdout);
    (void)fflush(stdout);
}

void server_live_end(const struct server_live *live, struct server *server,
                     uint64_t elapsed_ns)
{
    print_line(live, server, elapsed_ns);
    puts(live->is_terminal ? "\033[K" : "");
    (void)fflush(stdout);
}
