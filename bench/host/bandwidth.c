/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Copies of one block to the device and from it, through a buffer of an arena,
 * one of cuMemHostAlloc(), and one of an arena on another node where there is
 * one. They take turns, so that what disturbs one disturbs the other; their
 * ratio is of the same turn. Nothing else is under way, so it does not show
 * what a loaded machine does to the one that is further away.
 */
#include <stdio.h>

#include <moiety/host.h>
#include <moiety/status.h>

#include "bench/base/clock.h"
#include "bench/base/device.h"
#include "bench/host/batches.h"
#include "bench/host/host.h"
#include "bench/host/rig.h"
#include "bench/host/room.h"
#include "bench/host/row.h"

#define WHAT "bandwidth"
#define COPIES_PER_TURN 8U
#define TURNS_MIN 5U

enum { ARENA, DRIVER, OTHER_NODE, SUBJECTS };
enum { TO_DEVICE, TO_HOST, DIRECTIONS };

static const char *const names[SUBJECTS] = {"arena", "driver",
                                            "arena_other_node"};
static const char *const direction_names[DIRECTIONS] = {"h2d", "d2h"};

struct bandwidth {
    size_t block_bytes;
    CUdeviceptr there;
    moiety_host *arenas[SUBJECTS]; /* NULL for the driver's */
    struct host_buffer buffers[SUBJECTS];
    char why[SUBJECTS][256]; /* it failed; empty: it did not */
    struct host_sample gb_s[SUBJECTS][DIRECTIONS];
    struct host_sample ratio[SUBJECTS][DIRECTIONS]; /* to the driver's */
};

/* The first node with memory that the arena is not on; -1: there is none. */
static int other_node(moiety_host *arena)
{
    moiety_host_stats stats = {.struct_size = sizeof(stats)};
    uint64_t nodes[4];
    host_room_nodes(nodes);
    if (moiety_host_get_stats(arena, &stats) != MOIETY_OK)
        return -1;
    for (int node = 0; node < 256; node++)
        if (nodes[node / 64] & ~stats.nodes[node / 64] &
            UINT64_C(1) << node % 64)
            return node;
    return -1;
}

static bool is_on(moiety_host *arena, int node)
{
    moiety_host_stats stats = {.struct_size = sizeof(stats)};
    return moiety_host_get_stats(arena, &stats) == MOIETY_OK &&
           (stats.nodes[node / 64] >> node % 64 & 1) != 0;
}

/* NULL, or why there is no arena on that node. */
static const char *open_on(int node, moiety_host **out)
{
    moiety_host_options options = MOIETY_HOST_OPTIONS_INIT;
    if (node < 0)
        return "the arena is on every node with memory";
    options.policy = MOIETY_HOST_EXPLICIT;
    options.nodes[node / 64] = UINT64_C(1) << node % 64;
    if (moiety_host_create(&options, out) != MOIETY_OK)
        return moiety_last_error_message();
    if (is_on(*out, node))
        return NULL;
    (void)moiety_host_destroy(*out, NULL);
    return "MOIETY_CONF says where all arenas are";
}

/* NULL: there is no other node, or it may not be used; a row says which. */
static moiety_host *open_other(moiety_host *arena)
{
    moiety_host *other;
    const char *why = open_on(other_node(arena), &other);
    if (!why)
        return other;
    host_row_begin(WHAT, names[OTHER_NODE]);
    host_row_skip(why);
    return NULL;
}

/* The message is another's after the next call. */
static void note(struct bandwidth *b, unsigned subject, const char *why)
{
    if (why)
        (void)snprintf(b->why[subject], sizeof(b->why[subject]), "%s",
                       *why ? why : "failed without a message");
}

static void open_buffer(struct bandwidth *b, unsigned subject)
{
    if (!host_buffer_alloc(b->arenas[subject], b->block_bytes,
                           &b->buffers[subject]))
        note(b, subject, moiety_last_error_message());
    else
        note(b, subject,
             host_check_copies(b->buffers[subject].address, b->block_bytes,
                               b->there));
}

static bool copy_once(const struct bandwidth *b, unsigned subject,
                      unsigned direction)
{
    const struct moietyi_driver *driver = host_driver();
    CUstream stream = bench_device_streams[0];
    void *here = b->buffers[subject].address;
    return MOIETY_OK ==
           (direction == TO_DEVICE
                ? MOIETYI_CALL(driver, cuMemcpyHtoDAsync,
                               (b->there, here, b->block_bytes, stream))
                : MOIETYI_CALL(driver, cuMemcpyDtoHAsync,
                               (here, b->there, b->block_bytes, stream)));
}

/* Bytes a nanosecond, which is 10^9 bytes a second; 0: it failed. */
static double copy(const struct bandwidth *b, unsigned subject,
                   unsigned direction)
{
    uint64_t begun_ns = clock_now_ns();
    for (unsigned i = 0; i < COPIES_PER_TURN; i++)
        if (!copy_once(b, subject, direction))
            return 0;
    if (MOIETYI_CALL(host_driver(), cuStreamSynchronize,
                     (bench_device_streams[0])) != MOIETY_OK)
        return 0;
    return (double)(b->block_bytes * COPIES_PER_TURN) /
           (double)(clock_now_ns() - begun_ns);
}

/* Each subject once; the first one changes from turn to turn. */
static void take_turn(struct bandwidth *b, unsigned direction, unsigned turn)
{
    double gb_s[SUBJECTS] = {0};
    for (unsigned i = 0; i < SUBJECTS; i++) {
        unsigned subject = (i + turn) % SUBJECTS;
        if (!b->buffers[subject].address || *b->why[subject])
            continue;
        gb_s[subject] = copy(b, subject, direction);
        if (gb_s[subject] > 0)
            host_sample_add(&b->gb_s[subject][direction], gb_s[subject]);
        else
            note(b, subject, moiety_last_error_message());
    }
    for (unsigned i = 0; i < SUBJECTS; i++)
        if (gb_s[i] > 0 && gb_s[DRIVER] > 0)
            host_sample_add(&b->ratio[i][direction], gb_s[i] / gb_s[DRIVER]);
}

static void take_turns(struct bandwidth *b, const struct host_options *options)
{
    /* A cell for each subject and direction. */
    uint64_t end_ns =
        clock_now_ns() + options->cell_ms * 1000000 * SUBJECTS * DIRECTIONS;
    for (unsigned direction = 0; direction < DIRECTIONS; direction++)
        take_turn(b, direction, 0);
    /* That warmed up. */
    for (unsigned i = 0; i < SUBJECTS * DIRECTIONS; i++) {
        b->gb_s[i / DIRECTIONS][i % DIRECTIONS].count = 0;
        b->ratio[i / DIRECTIONS][i % DIRECTIONS].count = 0;
    }
    for (unsigned turn = 0; turn < TURNS_MIN || (clock_now_ns() < end_ns &&
                                                 turn < HOST_BATCHES_MAX);
         turn++)
        for (unsigned direction = 0; direction < DIRECTIONS; direction++)
            take_turn(b, direction, turn);
}

static void print_spread(const char *const keys[3], struct host_sample *sample)
{
    struct host_spread spread = host_sample_spread(sample);
    host_row_number(keys[0], spread.median);
    host_row_number(keys[1], spread.least);
    host_row_number(keys[2], spread.most);
}

static void print(struct bandwidth *b, unsigned subject, unsigned direction)
{
    static const char *const rates[] = {"gb_s_median", "gb_s_least",
                                        "gb_s_most"};
    static const char *const ratios[] = {"ratio_median", "ratio_least",
                                         "ratio_most"};
    host_row_begin(WHAT, names[subject]);
    host_row_count("size_bytes", b->block_bytes);
    host_row_text("direction", direction_names[direction]);
    if (*b->why[subject]) {
        host_row_fail(b->why[subject]);
        return;
    }
    int node = host_node_of(b->buffers[subject].address);
    if (node >= 0)
        host_row_count("node", (uint64_t)node);
    host_row_count("turns", b->gb_s[subject][direction].count);
    print_spread(rates, &b->gb_s[subject][direction]);
    if (b->ratio[subject][direction].count > 0)
        print_spread(ratios, &b->ratio[subject][direction]);
    host_row_end();
}

/* Again after all these copies: they still go where they should. */
static void print_all(struct bandwidth *b)
{
    for (unsigned i = 0; i < SUBJECTS; i++) {
        if (!b->buffers[i].address && !*b->why[i])
            continue;
        if (!*b->why[i])
            note(b, i,
                 host_check_copies(b->buffers[i].address, b->block_bytes,
                                   b->there));
        for (unsigned direction = 0; direction < DIRECTIONS; direction++)
            print(b, i, direction);
    }
}

static void measure(struct bandwidth *b, const struct host_options *options)
{
    open_buffer(b, ARENA);
    open_buffer(b, DRIVER);
    if (b->arenas[OTHER_NODE])
        open_buffer(b, OTHER_NODE);
    take_turns(b, options);
    print_all(b);
    for (unsigned i = 0; i < SUBJECTS; i++)
        host_buffer_free(&b->buffers[i]);
}

void host_bandwidth(const struct host_options *options)
{
    static struct bandwidth b;
    b.block_bytes = options->block_mib * HOST_MIB;
    b.arenas[ARENA] = host_arena_open(WHAT, NULL);
    if (!b.arenas[ARENA])
        return;
    b.arenas[OTHER_NODE] = open_other(b.arenas[ARENA]);
    if (host_device_alloc(b.block_bytes, &b.there)) {
        measure(&b, options);
        host_device_free(b.there);
    } else {
        host_row_begin(WHAT, NULL);
        host_row_fail(moiety_last_error_message());
    }
    if (b.arenas[OTHER_NODE])
        host_arena_close(WHAT, b.arenas[OTHER_NODE]);
    host_arena_close(WHAT, b.arenas[ARENA]);
}
