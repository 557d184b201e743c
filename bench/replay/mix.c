/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "bench/replay/mix.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "bench/base/random.h"

/* Steps of the logarithmic scale of sizes. */
#define SCALE 100000U

#define KIB UINT64_C(1024)
#define MIB (KIB * KIB)

static const struct mix lag_mixes[] = {
    {"lag", 8, 64 * KIB, 64 * MIB, 42, 3000},
};

/* Few blocks and many, small ranges and large ones, around both. */
static const struct mix other_mixes[] = {
    {"4-blocks-64k-64m", 4, 64 * KIB, 64 * MIB, 1, 3000},
    {"8-blocks-64k-64m", 8, 64 * KIB, 64 * MIB, 2, 3000},
    {"16-blocks-64k-64m", 16, 64 * KIB, 64 * MIB, 3, 3000},
    {"32-blocks-64k-16m", 32, 64 * KIB, 16 * MIB, 4, 6000},
    {"64-blocks-64k-16m", 64, 64 * KIB, 16 * MIB, 5, 6000},
    {"8-blocks-1m-256m", 8, MIB, 256 * MIB, 6, 3000},
    {"16-blocks-1m-128m", 16, MIB, 128 * MIB, 7, 3000},
    {"16-blocks-4k-4m", 16, 4 * KIB, 4 * MIB, 8, 3000},
    {"64-blocks-512b-1m", 64, 512, MIB, 9, 6000},
    {"256-blocks-512b-8m", 256, 512, 8 * MIB, 10, 12000},
    {"12-blocks-10m-100m", 12, 10 * MIB, 100 * MIB, 11, 3000},
    {"24-blocks-1m-8m", 24, MIB, 8 * MIB, 12, 6000},
};

static const struct mix large_mixes[] = {
    {"large", 16, MIB, KIB *MIB, 42, 6000},
};

#define SET(title, what, list)                                                 \
    {                                                                          \
        .name = title, .description = what, .mixes = list,                     \
        .count = sizeof(list) / sizeof((list)[0])                              \
    }

const struct mix_set mix_sets[] = {
    SET("lag", "8 blocks of 64 KiB to 64 MiB", lag_mixes),
    SET("others", "twelve others of that kind", other_mixes),
    SET("large", "16 blocks of 1 MiB to 1 GiB, for a GPU", large_mixes),
    {.name = NULL},
};

static bool take_number(const char **at, char end, uint64_t most, uint64_t *out)
{
    char *rest;
    if (**at < '1' || **at > '9')
        return false;
    *out = strtoull(*at, &rest, 10);
    *at = rest + 1;
    return *rest == end && *out <= most;
}

bool mix_parse(const char *text, struct mix *out)
{
    uint64_t places;
    uint64_t steps;
    *out = (struct mix){0};
    if (snprintf(out->name, sizeof(out->name), "%s", text) >=
        (int)sizeof(out->name))
        return false;
    if (!take_number(&text, ':', MIX_PLACES_MAX, &places) ||
        !take_number(&text, ':', MIX_BYTES_MAX, &out->least_bytes) ||
        !take_number(&text, ':', MIX_BYTES_MAX, &out->most_bytes) ||
        !take_number(&text, ':', UINT64_MAX - 1, &out->seed) ||
        !take_number(&text, '\0', MIX_STEPS_MAX, &steps))
        return false;
    out->places = (uint32_t)places;
    out->steps = (uint32_t)steps;
    return out->least_bytes <= out->most_bytes;
}

static uint64_t draw_size(const struct mix *mix, uint64_t *random)
{
    double part = (double)(random_next(random) % SCALE) / SCALE;
    double range = (double)mix->most_bytes / (double)mix->least_bytes;
    return (uint64_t)((double)mix->least_bytes * pow(range, part));
}

bool mix_write(const struct mix *mix, FILE *file)
{
    uint64_t random = mix->seed;
    bool *is_full = calloc(mix->places, sizeof(*is_full));
    if (!is_full)
        return false;
    (void)fprintf(file,
                  "moiety-trace 1\nI source mix\nI mix %s\n"
                  "T 0 all\nS 0 0x1000\n",
                  mix->name);
    for (uint32_t i = 0; i < mix->steps; i++) {
        uint32_t place = (uint32_t)(random_next(&random) % mix->places);
        is_full[place] = !is_full[place];
        if (is_full[place])
            (void)fprintf(file, "a 1000 0 %" PRIu32 " %" PRIu64 " 0\n", place,
                          draw_size(mix, &random));
        else
            (void)fprintf(file, "f 1000 0 %" PRIu32 " 0\n", place);
    }
    (void)fprintf(file, "E %" PRIu32 "\n", mix->steps);
    free(is_full);
    return !ferror(file);
}
