/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What single requests hold.
 */
#include "bench/studies/waste.h"

#include <inttypes.h>
#include <stdlib.h>

#include <moiety/stats.h>
#include <moiety/status.h>
#include <moiety/stream.h>

#define ORDER_MAX 32U
/* Up to here the classes are few enough to visit each of them. */
#define CLASS_BYTES_MAX (UINT64_C(64) << 10)
#define POWER_OF_TWO_MIN UINT64_C(512)
#define REQUESTS_MAX 4096U
/* 2.083 GiB: a request that somebody's pool rounded to 4 GiB. */
#define FRESH_BYTES UINT64_C(2236604219)

struct request {
    uint64_t wanted_bytes;
    uint64_t held_bytes;
};

struct requests {
    uint32_t count;
    struct request of[REQUESTS_MAX];
};

bool waste_check(moiety_status status, const char *call)
{
    if (status == MOIETY_OK)
        return true;
    (void)fprintf(stderr, "waste: %s: %s: %s\n", call,
                  moiety_status_name(status), moiety_last_error_message());
    return false;
}

const char *waste_size_text(uint64_t size_bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB"};
    static char text[2][32];
    static unsigned turn;
    unsigned unit = 0;
    double value = (double)size_bytes;
    for (; value >= 1024 && unit < 3; unit++)
        value /= 1024;
    turn = !turn;
    (void)snprintf(text[turn], sizeof(text[turn]), "%.5g %s", value,
                   units[unit]);
    return text[turn];
}

static uint64_t power_of_two(uint64_t size_bytes)
{
    uint64_t power = POWER_OF_TWO_MIN;
    while (power < size_bytes)
        power *= 2;
    return power;
}

/* The memory goes back to the source, so that the next request finds as much
 * of it as this one did. */
static bool hold(moiety_pool *pool, uint64_t size_bytes, uint64_t *out)
{
    moiety_devptr address;
    size_t usable_bytes = 0;
    if (!waste_check(
            moiety_alloc(pool, size_bytes, MOIETY_STREAM_ANY, &address),
            "moiety_alloc"))
        return false;
    bool is_well = waste_check(moiety_usable_size(pool, address, &usable_bytes),
                               "moiety_usable_size");
    is_well &= waste_check(moiety_free(pool, address, MOIETY_STREAM_DONE),
                           "moiety_free");
    if (size_bytes > CLASS_BYTES_MAX)
        is_well &=
            waste_check(moiety_pool_trim(pool, 0, NULL), "moiety_pool_trim");
    *out = usable_bytes;
    return is_well;
}

static void add(struct requests *requests, uint64_t wanted_bytes)
{
    if (wanted_bytes > 0 && wanted_bytes <= UINT64_C(1) << ORDER_MAX &&
        requests->count < REQUESTS_MAX)
        requests->of[requests->count++].wanted_bytes = wanted_bytes;
}

static void add_around(struct requests *requests, uint64_t size_bytes)
{
    add(requests, size_bytes - 1);
    add(requests, size_bytes);
    add(requests, size_bytes + 1);
}

static void add_eighths(struct requests *requests)
{
    for (unsigned order = 0; order <= ORDER_MAX; order++)
        for (uint64_t eighth = 8; eighth < 16; eighth++)
            add_around(requests, (eighth << order) / 8);
}

static bool add_classes(struct requests *requests, moiety_pool *pool)
{
    uint64_t held_bytes = 0;
    while (held_bytes < CLASS_BYTES_MAX) {
        if (!hold(pool, held_bytes + 1, &held_bytes))
            return false;
        add(requests, held_bytes);
        add(requests, held_bytes + 1);
    }
    return true;
}

static int compare(const void *left, const void *right)
{
    uint64_t a = ((const struct request *)left)->wanted_bytes;
    uint64_t b = ((const struct request *)right)->wanted_bytes;
    return (a > b) - (a < b);
}

static void sort(struct requests *requests)
{
    uint32_t kept = 0;
    qsort(requests->of, requests->count, sizeof(requests->of[0]), compare);
    for (uint32_t i = 0; i < requests->count; i++)
        if (i == 0 || compare(&requests->of[i], &requests->of[kept - 1]) != 0)
            requests->of[kept++] = requests->of[i];
    requests->count = kept;
}

static bool hold_all(struct requests *requests, moiety_pool *pool)
{
    if (!add_classes(requests, pool))
        return false;
    add_eighths(requests);
    sort(requests);
    for (uint32_t i = 0; i < requests->count; i++) {
        struct request *request = &requests->of[i];
        if (!hold(pool, request->wanted_bytes, &request->held_bytes))
            return false;
    }
    return true;
}

static double over_percent(uint64_t wanted_bytes, uint64_t held_bytes)
{
    return (double)(held_bytes - wanted_bytes) * 100 / (double)wanted_bytes;
}

static void print_every(const struct requests *requests)
{
    puts("| request, bytes | holds, bytes | over | power of two, bytes | over "
         "|\n|--:|--:|--:|--:|--:|");
    for (uint32_t i = 0; i < requests->count; i++) {
        const struct request *r = &requests->of[i];
        uint64_t power = power_of_two(r->wanted_bytes);
        printf("| %" PRIu64 " | %" PRIu64 " | %.2f %% | %" PRIu64
               " | %.2f %% |\n",
               r->wanted_bytes, r->held_bytes,
               over_percent(r->wanted_bytes, r->held_bytes), power,
               over_percent(r->wanted_bytes, power));
    }
}

/* The requests above `least` up to its double. */
static void print_doubling(const struct requests *requests, uint64_t least)
{
    struct request worst = {0};
    double sum = 0;
    double power_sum = 0;
    uint32_t count = 0;
    for (uint32_t i = 0; i < requests->count; i++) {
        struct request r = requests->of[i];
        if (r.wanted_bytes <= least || r.wanted_bytes > 2 * least)
            continue;
        double over = over_percent(r.wanted_bytes, r.held_bytes);
        if (count++ == 0 ||
            over > over_percent(worst.wanted_bytes, worst.held_bytes))
            worst = r;
        sum += over;
        power_sum += over_percent(r.wanted_bytes, power_of_two(r.wanted_bytes));
    }
    if (count == 0)
        return;
    printf("| %s to %s |", waste_size_text(least + 1),
           waste_size_text(2 * least));
    printf(" %" PRIu32 " | %.2f %% | %.2f %% | %" PRIu64 " | %" PRIu64
           " | %.2f %% |\n",
           count, sum / count,
           over_percent(worst.wanted_bytes, worst.held_bytes),
           worst.wanted_bytes, worst.held_bytes, power_sum / count);
}

static void print_doublings(const struct requests *requests)
{
    puts("| requests | number | over, mean | over, worst | of request, bytes | "
         "which holds, bytes | power of two, mean |\n"
         "|---|--:|--:|--:|--:|--:|--:|");
    for (unsigned order = 9; order < ORDER_MAX; order++)
        print_doubling(requests, UINT64_C(1) << order);
}

static void write_json(const struct requests *requests, FILE *json)
{
    for (uint32_t i = 0; i < requests->count; i++) {
        (void)fprintf(json,
                      "{\"what\":\"request\",\"wanted_bytes\":%" PRIu64
                      ",\"held_bytes\":%" PRIu64
                      ",\"power_of_two_bytes\":%" PRIu64 "}\n",
                      requests->of[i].wanted_bytes, requests->of[i].held_bytes,
                      power_of_two(requests->of[i].wanted_bytes));
    }
}

bool waste_requests(const struct waste_options *options, FILE *json)
{
    static struct requests requests;
    moiety_pool_options pool_options = {.struct_size = sizeof pool_options,
                                        .memory = MOIETY_MEMORY_DRIVER};
    moiety_pool *pool;
    pool_options.thread_cache_bytes = MOIETY_BYTES_NONE;
    if (!waste_check(moiety_pool_create(&pool_options, &pool),
                     "moiety_pool_create"))
        return false;
    bool is_well = hold_all(&requests, pool);
    is_well &=
        waste_check(moiety_pool_destroy(pool, NULL), "moiety_pool_destroy");
    if (!is_well)
        return false;
    puts("## Requests\n");
    printf("Up to 512 bytes a request holds %" PRIu64 ".\n\n",
           requests.of[0].held_bytes);
    (options->is_all ? print_every : print_doublings)(&requests);
    if (json)
        write_json(&requests, json);
    return true;
}

static bool reserve_for_one(moiety_pool *pool, uint64_t *out_held_bytes,
                            moiety_pool_stats *out)
{
    moiety_devptr address;
    size_t held_bytes = 0;
    if (!waste_check(
            moiety_alloc(pool, FRESH_BYTES, MOIETY_STREAM_ANY, &address),
            "moiety_alloc"))
        return false;
    bool is_well = waste_check(moiety_usable_size(pool, address, &held_bytes),
                               "moiety_usable_size");
    is_well &=
        waste_check(moiety_pool_get_stats(pool, out), "moiety_pool_get_stats");
    is_well &= waste_check(moiety_free(pool, address, MOIETY_STREAM_DONE),
                           "moiety_free");
    *out_held_bytes = held_bytes;
    return is_well;
}

bool waste_fresh_pool(FILE *json)
{
    moiety_pool_stats stats = {.struct_size = sizeof(stats)};
    uint64_t held_bytes;
    const moiety_pool_options options = {.struct_size = sizeof options,
                                         .memory = MOIETY_MEMORY_DRIVER};
    moiety_pool *pool;
    if (!waste_check(moiety_pool_create(&options, &pool), "moiety_pool_create"))
        return false;
    bool is_well = reserve_for_one(pool, &held_bytes, &stats);
    is_well &=
        waste_check(moiety_pool_destroy(pool, NULL), "moiety_pool_destroy");
    if (!is_well)
        return false;
    puts("\n## One request in a fresh pool\n\n"
         "| request, bytes | holds, bytes | reserved, bytes | reserved, GiB | "
         "power of two, GiB |\n|--:|--:|--:|--:|--:|");
    printf("| %" PRIu64 " | %" PRIu64 " | %" PRIu64 " | %.4f | %.4f |\n",
           FRESH_BYTES, held_bytes, stats.reserved_bytes_current,
           (double)stats.reserved_bytes_current / 0x1p30,
           (double)power_of_two(FRESH_BYTES) / 0x1p30);
    if (json) {
        (void)fprintf(json,
                      "{\"what\":\"fresh_pool\",\"wanted_bytes\":%" PRIu64
                      ",\"held_bytes\":%" PRIu64 ",\"reserved_bytes\":%" PRIu64
                      "}\n",
                      FRESH_BYTES, held_bytes, stats.reserved_bytes_current);
    }
    return true;
}
