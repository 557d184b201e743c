/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The time is cut into rounds, and each round into a phase for each subject, so
 * that what the machine does meanwhile hits them alike. The order moves on by
 * one from round to round.
 */
#define _POSIX_C_SOURCE 200809L
#include "bench/server/comparison.h"

#include <stdio.h>
#include <unistd.h>

#include <moiety/moiety.h>

#include "bench/base/clock.h"
#include "bench/server/phase.h"
#include "bench/server/server.h"

#define REDRAW_MS 100U

/* How it goes, while it goes: a line for each phase, which moves on a
 * terminal. */
struct live {
    bool is_terminal;
    const char *subject; /* of the phase under way */
    unsigned round;
};

static void live_init(struct live *out)
{
    *out = (struct live){.is_terminal = isatty(STDOUT_FILENO)};
}

static void live_begin(struct live *live, const char *subject, unsigned round)
{
    live->subject = subject;
    live->round = round;
}

static void live_print(const struct live *live, struct server *server,
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

/* To be called now and then; prints nothing where lines cannot move. */
static void live_update(const struct live *live, struct server *server,
                        uint64_t elapsed_ns)
{
    if (!live->is_terminal)
        return;
    live_print(live, server, elapsed_ns);
    (void)fputs("\033[K\r", stdout);
    (void)fflush(stdout);
}

static void live_end(const struct live *live, struct server *server,
                     uint64_t elapsed_ns)
{
    live_print(live, server, elapsed_ns);
    puts(live->is_terminal ? "\033[K" : "");
    (void)fflush(stdout);
}

static void set_phase(struct server *server, const struct server_total *total,
                      unsigned round, uint64_t start_ns)
{
    const struct server_options *options = server->options;
    double phases = (double)options->subject_count * SERVER_ROUNDS;
    server->subject = total->subject;
    atomic_store(&server->next_request, total->next_request);
    if (options->request_count) {
        server->deadline_ns = UINT64_MAX;
        server->request_end =
            options->request_count * (round + 1) / SERVER_ROUNDS;
    } else {
        server->deadline_ns =
            start_ns + (uint64_t)(options->seconds / phases * 1e9);
        server->request_end = UINT64_MAX;
    }
}

static void run_phase(struct server *server, struct live *live,
                      struct server_total *total, unsigned round)
{
    uint64_t start_ns = clock_now_ns();
    set_phase(server, total, round, start_ns);
    live_begin(live, total->subject->name, round);
    server_phase_begin(server);
    while (!server_phase_wait(server, REDRAW_MS))
        live_update(live, server, clock_now_ns() - start_ns);
    uint64_t taken_ns = server_phase_end_ns(server) - start_ns;
    live_end(live, server, taken_ns);
    server_phase_tally(server, &total->tally);
    server_phase_calls(server, &total->calls);
    total->seconds += (double)taken_ns / 1e9;
    /* Workers take one number too many to see that there are no more. */
    uint64_t next = atomic_load(&server->next_request);
    total->next_request =
        next < server->request_end ? next : server->request_end;
}

static void run_rounds(struct server *server, struct server_total *totals)
{
    unsigned count = server->options->subject_count;
    struct live live;
    live_init(&live);
    for (unsigned round = 0; round < SERVER_ROUNDS; round++)
        for (unsigned i = 0; i < count; i++)
            if (!atomic_load(&server->has_failed))
                run_phase(server, &live, &totals[(round + i) % count], round);
}

/* Stops at the first that cannot start. */
static bool start_subjects(const struct server_device *device,
                           const struct server_options *options,
                           struct server_total *totals)
{
    for (unsigned i = 0; i < options->subject_count; i++) {
        const struct server_subject *subject = options->subjects[i];
        totals[i].subject = subject;
        moiety_status status = subject->start(device);
        if (status == MOIETY_OK)
            continue;
        (void)fprintf(stderr, "server: %s cannot start: %s, %s\n",
                      subject->name, moiety_status_name(status),
                      moiety_last_error_message());
        return false;
    }
    return true;
}

static void stop_subjects(unsigned count, struct server_total *totals)
{
    for (unsigned i = 0; i < count && totals[i].subject; i++) {
        const struct server_subject *subject = totals[i].subject;
        totals[i].peak_bytes = subject->peak_bytes();
        if (subject->describe)
            subject->describe(totals[i].story, sizeof(totals[i].story));
        totals[i].lost_bytes = subject->stop();
    }
}

static bool serve_on(const struct server_device *device,
                     const struct server_staging *staging,
                     const struct server_options *options,
                     struct server_total *totals)
{
    struct server server = {
        .options = options, .device = device, .staging = staging};
    bool is_well = server_workers_start(&server);
    if (is_well)
        run_rounds(&server, totals);
    server_workers_stop(&server);
    return is_well && !atomic_load(&server.has_failed);
}

static bool open_staging(const struct server_device *device,
                         const struct server_options *options,
                         const moiety_caps *caps, struct server_staging *out)
{
    struct server_staging_facts facts;
    moiety_status status = server_staging_open(device, options->staging,
                                               options->thread_count, out);
    if (status != MOIETY_OK) {
        (void)fprintf(stderr, "server: staging: %s: %s\n",
                      moiety_status_name(status), moiety_last_error_message());
        return false;
    }
    server_staging_look(out, &facts);
    server_staging_print(&facts, caps, options->device);
    return true;
}

bool server_compare(const struct server_options *options,
                    const moiety_caps *caps, struct server_outcome *out)
{
    struct server_device device;
    struct server_staging staging = {0};
    moiety_status status =
        server_device_open(options->device, options->thread_count, &device);
    bool is_well = status == MOIETY_OK;
    if (!is_well)
        (void)fprintf(stderr, "server: %s: %s\n", moiety_status_name(status),
                      moiety_last_error_message());
    else
        is_well = open_staging(&device, options, caps, &staging) &&
                  start_subjects(&device, options, out->totals) &&
                  serve_on(&device, &staging, options, out->totals);
    /* Nothing may be under way, also after an error. */
    if (device.context)
        (void)device.driver->cuCtxSynchronize();
    stop_subjects(options->subject_count, out->totals);
    server_staging_close(&staging, &out->staging);
    server_device_close(&device);
    return is_well;
}
