/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A phase has two halves: in the first the workers serve; in the second, which
 * nobody begins before all have ended the first, they free what others have
 * left them.
 */
#define _POSIX_C_SOURCE 200809L
#include "bench/server/phase.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "bench/base/clock.h"
#include "bench/base/random.h"
#include "bench/server/request.h"
#include "bench/server/service.h"

#define PATTERN_BYTES (SERVER_TENSOR_BYTES_MAX + SERVER_INPUT_OFFSET_MAX)
#define CLOCK_READINGS 1000U

/* True for MOIETY_OK; otherwise says what went wrong, once, and stops all. */
static bool is_well(struct server_worker *worker, const char *what,
                    moiety_status status)
{
    struct server *server = worker->server;
    if (status == MOIETY_OK)
        return true;
    if (!atomic_exchange(&server->has_failed, true))
        (void)fprintf(stderr, "server: %s, %s: %s, %s\n", server->subject->name,
                      what, moiety_status_name(status),
                      moiety_last_error_message());
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

/* A thread's body. Serves phase after phase until the server is over. */
static void *run_worker(void *argument)
{
    struct server_worker *worker = argument;
    struct server *server = worker->server;
    const struct moietyi_driver *driver = server->device->driver;
    moiety_status entered =
        MOIETYI_CALL(driver, cuCtxSetCurrent, (server->device->context));
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

/* The least of many: what is more was spent on something else. */
static uint64_t clock_cost_ns(void)
{
    uint64_t least = UINT64_MAX;
    for (unsigned i = 0; i < CLOCK_READINGS; i++) {
        uint64_t start_ns = clock_now_ns();
        uint64_t spent_ns = clock_now_ns() - start_ns;
        if (spent_ns < least)
            least = spent_ns;
    }
    return least;
}

static moiety_status make_pattern(struct server *server)
{
    uint64_t random = random_start(server->options->seed, 0);
    server->pattern = malloc(PATTERN_BYTES);
    if (!server->pattern)
        return MOIETY_E_NO_HOST_MEMORY;
    for (size_t i = 0; i < PATTERN_BYTES; i++)
        server->pattern[i] = (unsigned char)(random_next(&random) >> 56);
    return MOIETY_OK;
}

static moiety_status start_worker(struct server *server, unsigned index)
{
    const struct moietyi_driver *driver = server->device->driver;
    struct server_worker *worker = &server->workers[index];
    worker->server = server;
    worker->index = index;
    (void)pthread_mutex_init(&worker->lock, NULL);
    (void)pthread_mutex_init(&worker->mailbox.lock, NULL);
    moiety_status status = MOIETYI_CALL(
        driver, cuEventCreate, (&worker->arrival, CU_EVENT_DISABLE_TIMING));
    if (status != MOIETY_OK)
        return status;
    return pthread_create(&worker->thread, NULL, run_worker, worker) == 0
               ? MOIETY_OK
               : MOIETY_E_NO_HOST_MEMORY;
}

/* Time-outs are told by the clock that nobody sets. */
static void init_locks(struct server *server)
{
    pthread_condattr_t attributes;
    (void)pthread_condattr_init(&attributes);
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&server->changed, &attributes);
    (void)pthread_condattr_destroy(&attributes);
    (void)pthread_mutex_init(&server->lock, NULL);
}

bool server_workers_start(struct server *server)
{
    unsigned wanted = server->options->thread_count;
    init_locks(server);
    server->clock_ns = clock_cost_ns();
    server->workers = calloc(wanted, sizeof(*server->workers));
    moiety_status status =
        server->workers ? make_pattern(server) : MOIETY_E_NO_HOST_MEMORY;
    while (status == MOIETY_OK && server->worker_count < wanted) {
        status = start_worker(server, server->worker_count);
        if (status == MOIETY_OK)
            server->worker_count++;
    }
    if (status != MOIETY_OK)
        (void)fprintf(stderr, "server: no worker: %s, %s\n",
                      moiety_status_name(status), moiety_last_error_message());
    return status == MOIETY_OK;
}

static void take_down_worker(struct server_worker *worker,
                             const struct moietyi_driver *driver)
{
    if (worker->arrival)
        (void)driver->cuEventDestroy(worker->arrival);
}

void server_workers_stop(struct server *server)
{
    const struct moietyi_driver *driver = server->device->driver;
    (void)pthread_mutex_lock(&server->lock);
    server->is_over = true;
    (void)pthread_cond_broadcast(&server->changed);
    (void)pthread_mutex_unlock(&server->lock);
    for (unsigned i = 0; i < server->worker_count; i++)
        (void)pthread_join(server->workers[i].thread, NULL);
    unsigned made = server->workers ? server->options->thread_count : 0;
    for (unsigned i = 0; i < made; i++)
        take_down_worker(&server->workers[i], driver);
    free(server->pattern);
    free(server->workers);
}

void server_phase_begin(struct server *server)
{
    for (unsigned i = 0; i < server->worker_count; i++) {
        server->workers[i].tally = (struct server_tally){0};
        server->workers[i].calls = (struct server_calls){0};
    }
    (void)pthread_mutex_lock(&server->lock);
    server->busy_count = 2 * server->worker_count;
    server->phase++;
    (void)pthread_cond_broadcast(&server->changed);
    (void)pthread_mutex_unlock(&server->lock);
}

static struct timespec time_from_now(unsigned timeout_ms)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += timeout_ms / 1000;
    until.tv_nsec += timeout_ms % 1000 * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000L;
    until.tv_nsec %= 1000000000L;
    return until;
}

bool server_phase_wait(struct server *server, unsigned timeout_ms)
{
    struct timespec until = time_from_now(timeout_ms);
    int error = 0;
    (void)pthread_mutex_lock(&server->lock);
    while (server->busy_count > 0 && error != ETIMEDOUT)
        error = pthread_cond_timedwait(&server->changed, &server->lock, &until);
    bool is_over = server->busy_count == 0;
    (void)pthread_mutex_unlock(&server->lock);
    return is_over;
}

void server_phase_tally(struct server *server, struct server_tally *into)
{
    for (unsigned i = 0; i < server->worker_count; i++) {
        struct server_worker *worker = &server->workers[i];
        (void)pthread_mutex_lock(&worker->lock);
        server_tally_merge(into, &worker->tally);
        (void)pthread_mutex_unlock(&worker->lock);
    }
}

void server_phase_calls(const struct server *server, struct server_calls *into)
{
    for (unsigned i = 0; i < server->worker_count; i++)
        server_calls_merge(into, &server->workers[i].calls);
}

uint64_t server_phase_end_ns(const struct server *server)
{
    uint64_t last_ns = 0;
    for (unsigned i = 0; i < server->worker_count; i++)
        if (server->workers[i].end_ns > last_ns)
            last_ns = server->workers[i].end_ns;
    return last_ns;
}
