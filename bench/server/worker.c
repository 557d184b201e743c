/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A phase has two halves: in the first the workers serve; in the second, which
 * nobody begins before all have ended the first, they free what others have
 * left them.
 */
#include "bench/server/worker.h"

#include <stdio.h>

#include "bench/base/clock.h"
#include "bench/server/request.h"
#include "bench/server/server.h"
#include "bench/server/service.h"

/* True for BINADE_OK; otherwise says what went wrong, once, and stops all. */
static bool is_well(struct server_worker *worker, const char *what,
                    binade_status status)
{
    struct server *server = worker->server;
    if (status == BINADE_OK)
        return true;
    if (!atomic_exchange(&server->has_failed, true))
        (void)fprintf(stderr, "server: %s, %s: %s, %s\n", server->subject->name,
                      what, binade_status_name(status),
                      binade_last_error_message());
    return false;
}

static void note_request(struct server_worker *worker, uint64_t latency_ns)
{
    (void)pthread_mutex_lock(&worker->lock);
    server_counts_add(&worker->tally.counts, &worker->counts);
    if (worker->counts.requests)
        histogram_add(&worker->tally.latency, latency_ns * 1000);
    (void)pthread_mutex_unlock(&worker->lock);
    worker->counts = (struct server_counts){0};
}

/* The latency is that of the request alone; the mail is part of serving. */
static void serve_one(struct server_worker *worker, uint64_t number)
{
    struct server_request request;
    uint64_t start_ns = clock_now_ns();
    if (!is_well(worker, "a free for another thread", server_free_mail(worker)))
        return;
    uint64_t request_ns = clock_now_ns();
    server_request_make(worker->server->options->seed, number, &request);
    (void)is_well(worker, "a request", server_serve(worker, &request));
    uint64_t end_ns = clock_now_ns();
    worker->counts.serving_ns += end_ns - start_ns;
    note_request(worker, end_ns - request_ns);
}

static void serve_phase(struct server_worker *worker)
{
    struct server *server = worker->server;
    while (!atomic_load_explicit(&server->has_failed, memory_order_relaxed) &&
           clock_now_ns() < server->deadline_ns) {
        uint64_t number = atomic_fetch_add_explicit(&server->next_request, 1,
                                                    memory_order_relaxed);
        if (number >= server->request_end)
            break;
        serve_one(worker, number);
    }
    worker->end_ns = clock_now_ns();
}

/* False when there is none to come. */
static bool wait_for_phase(struct server *server, uint64_t phase)
{
    (void)pthread_mutex_lock(&server->lock);
    while (server->phase < phase && !server->is_over)
        (void)pthread_cond_wait(&server->changed, &server->lock);
    bool has_begun = server->phase >= phase;
    (void)pthread_mutex_unlock(&server->lock);
    return has_begun;
}

/* Every worker that ends its half makes `busy_count` one less: down to
 * `worker_count` in the first, to 0 in the second. */
static void end_half(struct server *server)
{
    (void)pthread_mutex_lock(&server->lock);
    server->busy_count--;
    (void)pthread_cond_broadcast(&server->changed);
    (void)pthread_mutex_unlock(&server->lock);
}

static void wait_for_others(struct server *server)
{
    (void)pthread_mutex_lock(&server->lock);
    while (server->busy_count > server->worker_count)
        (void)pthread_cond_wait(&server->changed, &server->lock);
    (void)pthread_mutex_unlock(&server->lock);
}

void *server_worker_run(void *argument)
{
    struct server_worker *worker = argument;
    struct server *server = worker->server;
    const struct binadei_driver *driver = server->device->driver;
    binade_status entered =
        BINADEI_CALL(driver, cuCtxSetCurrent, (server->device->context));
    for (uint64_t phase = 1; wait_for_phase(server, phase); phase++) {
        if (is_well(worker, "entering the context", entered))
            serve_phase(worker);
        end_half(server);
        wait_for_others(server);
        (void)is_well(worker, "a free for another thread",
                      server_free_mail(worker));
        note_request(worker, 0);
        end_half(server);
    }
    return NULL;
}
