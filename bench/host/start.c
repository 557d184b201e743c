/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * How long an arena takes to have its memory: moiety_host_reserve(), by stage
 * as the arena counts them, beside one cuMemHostAlloc() of the same size. That
 * call has all pages there when it returns; how long it takes to write one byte
 * to each is shown apart (`touch_ns`), and tells whether it had. `first_ns` is when
 * the arena's first piece was there, and `others_wait_ns` the longest that a
 * cuMemGetInfo() of another thread took meanwhile. `others_launch_ns`, `_copy_ns` and
 * `_alloc_ns` are of threads that set, copy and allocate memory of the device;
 * `process_...` is the same of another process. `nobody` starts nothing: others wait for
 * each other, too.
 *
 * A system whose memory is fragmented or full of a page cache is slower in
 * both; each process begins with another subject.
 */
#define _POSIX_C_SOURCE 200809L
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include <moiety/host.h>
#include <moiety/status.h>

#include "bench/base/clock.h"
#include "bench/host/bystand.h"
#include "bench/host/host.h"
#include "bench/host/rig.h"
#include "bench/host/room.h"
#include "bench/host/row.h"

/* Of which something is used, to see that it is memory. */
#define CHECK_BYTES ((size_t)2 << 20)
#define PAGE_BYTES ((size_t)4096)

struct start {
    const char *name;
    bool is_arena;
    uint32_t flags;
    uint32_t threads; /* 0: as many as the arena takes by itself */
    bool is_small;    /* without transparent huge pages */
};

static const struct start contenders[] = {
    {"arena", true, 0, 0, false},
    {"arena_1_thread", true, 0, 1, false},
    {"arena_4_threads", true, 0, 4, false},
    {"arena_8_threads", true, 0, 8, false},
    {"arena_small_pages", true, 0, 0, true},
    {"arena_2mib_pages", true, MOIETY_HOST_HUGE_2MIB, 0, false},
    {"driver", false, 0, 0, false},
    {"nobody", false, 0, 0, false},
};
/* Of nobody: that others wait for each other. */
#define NOBODY_NS 200000000L
#define SUBJECTS (sizeof(contenders) / sizeof(contenders[0]))

static void note_first(void *user_data, uint64_t done_bytes,
                       uint64_t total_bytes)
{
    uint64_t *first_ns = user_data;
    (void)total_bytes;
    if (done_bytes && !*first_ns)
        *first_ns = clock_now_ns();
}

/* NULL, or why it cannot be measured here. */
static const char *has_room(const struct start *subject, uint64_t size_bytes)
{
    static char reason[128];
    bool is_huge = (subject->flags & MOIETY_HOST_HUGE_2MIB) != 0;
    /* An eighth is left, for what else the system and we need. */
    uint64_t room_bytes =
        is_huge ? host_room_huge_bytes() : host_room_bytes() / 8 * 7;
    if (room_bytes >= size_bytes)
        return NULL;
    (void)snprintf(reason, sizeof(reason), "there are only %" PRIu64 " MiB%s",
                   room_bytes >> 20,
                   is_huge ? " in free pages of 2 MiB" : " to be had");
    return reason;
}

static const char *check(struct host_buffer *buffer)
{
    CUdeviceptr there = 0;
    if (!host_device_alloc(CHECK_BYTES, &there))
        return moiety_last_error_message();
    const char *why = host_check_copies(buffer->address, CHECK_BYTES, there);
    host_device_free(there);
    return why;
}

static const char *check_arena(moiety_host *arena, uint64_t size_bytes,
                               const moiety_host_stats *stats)
{
    struct host_buffer buffer;
    if (stats->pinned_bytes < size_bytes)
        return "less is pinned than was asked for";
    if (!host_buffer_alloc(arena, CHECK_BYTES, &buffer))
        return moiety_last_error_message();
    const char *why = check(&buffer);
    host_buffer_free(&buffer);
    return why;
}

static void print_stages(const moiety_host_stats *stats)
{
    static const char *const keys[MOIETY_HOST_STAGE_COUNT] = {
        "map_ns", "bind_ns", "stage_touch_ns", "register_ns", "read_back_ns"};
    for (int i = 0; i < MOIETY_HOST_STAGE_COUNT; i++)
        host_row_count(keys[i], stats->stage_ns[i]);
}

static void print_memory(moiety_host *arena, const moiety_host_stats *stats)
{
    static const char *const keys[MOIETY_HOST_PAGES_COUNT] = {
        "small_bytes", "transparent_bytes", "huge_2mib_bytes",
        "huge_1gib_bytes", "driver_bytes"};
    char report[1024];
    host_row_count("threads", stats->touch_threads);
    host_row_count("pinned_bytes", stats->pinned_bytes);
    host_row_count("pages_asked", stats->pages_asked);
    host_row_count("pages_near", stats->pages_near);
    host_row_count("pages_elsewhere", stats->pages_elsewhere);
    for (int i = 0; i < MOIETY_HOST_PAGES_COUNT; i++)
        host_row_count(keys[i], stats->page_kind_bytes[i]);
    host_row_count("fallbacks", stats->fallbacks);
    if (moiety_host_report(arena, report, sizeof(report)) == MOIETY_OK)
        host_row_text("report", report);
}

/* The row is begun; returns why it failed. */
static const char *grow(moiety_host *arena, const struct start *subject,
                        uint64_t size_bytes, const struct host_options *options)
{
    moiety_host_stats stats = {.struct_size = sizeof(stats)};
    uint64_t first_ns = 0;
    struct bystanders *bystanders = bystand_begin(options);
    uint64_t begun_ns = clock_now_ns();
    moiety_status status = moiety_host_reserve(
        arena, size_bytes, subject->threads, note_first, &first_ns);
    uint64_t took_ns = clock_now_ns() - begun_ns;
    bystand_end(bystanders, status == MOIETY_OK);
    if (status != MOIETY_OK)
        return moiety_last_error_message();
    host_row_count("ns", took_ns);
    host_row_count("first_ns", first_ns - begun_ns);
    if (moiety_host_get_stats(arena, &stats) != MOIETY_OK)
        return moiety_last_error_message();
    print_stages(&stats);
    print_memory(arena, &stats);
    return check_arena(arena, size_bytes, &stats);
}

static const char *measure_arena(const struct start *subject,
                                 uint64_t size_bytes,
                                 const struct host_options *options)
{
    moiety_host_options wishes = MOIETY_HOST_OPTIONS_INIT;
    moiety_host *arena;
    wishes.flags = subject->flags;
    /* Some machines have more memory than they say before it is used. */
    wishes.limit_bytes = size_bytes;
    (void)prctl(PR_SET_THP_DISABLE, subject->is_small, 0, 0, 0);
    uint64_t begun_ns = clock_now_ns();
    if (moiety_host_create(&wishes, &arena) != MOIETY_OK)
        return moiety_last_error_message();
    host_row_count("create_ns", clock_now_ns() - begun_ns);
    const char *why = grow(arena, subject, size_bytes, options);
    begun_ns = clock_now_ns();
    if (moiety_host_destroy(arena, NULL) != MOIETY_OK && !why)
        why = moiety_last_error_message();
    host_row_count("destroy_ns", clock_now_ns() - begun_ns);
    (void)prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0);
    return why;
}

static uint64_t touch_ns(struct host_buffer *buffer)
{
    volatile unsigned char *bytes = buffer->address;
    uint64_t begun_ns = clock_now_ns();
    for (size_t i = 0; i < buffer->size_bytes; i += PAGE_BYTES)
        bytes[i] = 1;
    return clock_now_ns() - begun_ns;
}

static const char *measure_driver(uint64_t size_bytes,
                                  const struct host_options *options)
{
    struct host_buffer buffer;
    struct bystanders *bystanders = bystand_begin(options);
    uint64_t begun_ns = clock_now_ns();
    bool is_there = host_buffer_alloc(NULL, size_bytes, &buffer);
    uint64_t took_ns = clock_now_ns() - begun_ns;
    bystand_end(bystanders, is_there);
    if (!is_there)
        return moiety_last_error_message();
    host_row_count("ns", took_ns);
    host_row_count("touch_ns", touch_ns(&buffer));
    const char *why = check(&buffer);
    begun_ns = clock_now_ns();
    host_buffer_free(&buffer);
    host_row_count("destroy_ns", clock_now_ns() - begun_ns);
    return why;
}

static const char *measure_nobody(const struct host_options *options)
{
    const struct timespec while_ns = {0, NOBODY_NS};
    struct bystanders *bystanders = bystand_begin(options);
    (void)nanosleep(&while_ns, NULL);
    bystand_end(bystanders, true);
    return NULL;
}

static void measure(const struct start *subject, uint64_t size_bytes,
                    const struct host_options *options)
{
    host_row_begin("start", subject->name);
    host_row_count("size_bytes", size_bytes);
    const char *skipped = host_is_over(options) ? "no time was left"
                                                : has_room(subject, size_bytes);
    if (skipped) {
        host_row_skip(skipped);
        return;
    }
    const char *why;
    if (subject->is_arena)
        why = measure_arena(subject, size_bytes, options);
    else if (strcmp(subject->name, "driver") == 0)
        why = measure_driver(size_bytes, options);
    else
        why = measure_nobody(options);
    if (why)
        host_row_fail(why);
    else
        host_row_end();
}

void host_start(const struct host_options *options)
{
    for (unsigned i = 0; i < options->start_count; i++)
        for (uint64_t j = 0; j < SUBJECTS; j++)
            measure(&contenders[(j + options->process) % SUBJECTS],
                    options->start_mib[i] * HOST_MIB, options);
}
