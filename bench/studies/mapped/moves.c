/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What it takes to move pages of mapped memory, and whether it may be done
 * while work is queued: the questions that elastic memory stands on. --help
 * says what is printed.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/base/clock.h"
#include "bench/base/command_line.h"
#include "bench/base/device.h"
#include "bench/base/numbers.h"
#include "bench/base/team.h"
#include "bench/studies/mapped/kernels.h"
#include "bench/studies/mapped/must.h"
#include "pool/driver/driver_table.h"

#define MIB (UINT64_C(1) << 20)
#define HANDLE_BYTES (2 * MIB)
#define WORDS ((unsigned)(HANDLE_BYTES / sizeof(uint32_t)))
#define CALLS 64U
#define HANDLES 32U
#define PLACES 16U
#define LAUNCHERS_MAX 8U
#define LAUNCHES_A_SYNC 256U
#define LAUNCHED_WORDS 256U

static const char help[] =
    "usage: moves [--part=P] [--rounds=N] [--driver=D]\n"
    "  --part=P    calls, ranges, aliases, moving or launches (default: all)\n"
    "  --rounds=N  of aliases and moving, 1 to 1000000 (default 10000)\n"
    "  --driver=D  auto, cuda, standin or a path with a / in it (default:\n"
    "              what MOIETY_DRIVER says); all but calls and ranges need a "
    "GPU\n"
    "\n"
    "Prints, as JSON Lines:\n"
    "calls     median us of each driver call, by the size of a handle\n"
    "ranges    median us of mapping handles side by side, of one call for the\n"
    "          access of all, and of one that unmaps all, by their size and\n"
    "          number\n"
    "aliases   kernels of one stream write a handle at one address and read "
    "it\n"
    "          at another: wrong words, and how many a planted error shows\n"
    "moving    handles go on to new addresses while work at the old ones is\n"
    "          queued; those are unmapped once an event has passed: wrong\n"
    "          words, waits for events, ns of mapping\n"
    "launches  ns of a launch of 1 and of 8 threads, without and beside a\n"
    "          thread that maps and unmaps handles all the time\n"
    "\n"
    "exit status: 0 all well; 1 a wrong word, or something failed; 2 bad\n"
    "argument\n";

static struct {
    const struct moietyi_driver *driver;
    struct kernels kernels;
    uint64_t rounds;
} study = {.rounds = 10000};

static const CUmemAllocationProp properties = {
    .type = CU_MEM_ALLOCATION_TYPE_PINNED,
    .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
static const CUmemAccessDesc access_of_all = {
    .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
    .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

static void map(CUdeviceptr address, size_t bytes,
                CUmemGenericAllocationHandle handle)
{
    MUST(cuMemMap, (address, bytes, 0, handle, 0));
    MUST(cuMemSetAccess, (address, bytes, &access_of_all, 1));
}

static CUdeviceptr reserve(size_t bytes)
{
    CUdeviceptr address;
    MUST(cuMemAddressReserve, (&address, bytes, HANDLE_BYTES, 0, 0));
    return address;
}

static CUmemGenericAllocationHandle create(size_t bytes)
{
    CUmemGenericAllocationHandle handle;
    MUST(cuMemCreate, (&handle, bytes, &properties, 0));
    return handle;
}

static double part_of(const double *sorted, size_t count, double part)
{
    return sorted[(size_t)((double)(count - 1) * part)];
}

static void print_tail(double *ns, size_t count)
{
    numbers_sort(ns, count);
    printf(",\"median_ns\":%.0f,\"p99_ns\":%.0f,\"p999_ns\":%.0f,"
           "\"most_ns\":%.0f}\n",
           part_of(ns, count, 0.5), part_of(ns, count, 0.99),
           part_of(ns, count, 0.999), ns[count - 1]);
}

enum call { CREATE, MAP, ACCESS, UNMAP, RELEASE, CALL_COUNT };

static double us_since(uint64_t *begun_ns)
{
    uint64_t now_ns = clock_now_ns();
    double us = (double)(now_ns - *begun_ns) / 1000;
    *begun_ns = now_ns;
    return us;
}

static void measure_calls(CUstream stream)
{
    static const uint64_t sizes[] = {2, 8, 32, 64, 256};
    static const char *const names[CALL_COUNT] = {"create", "map", "access",
                                                  "unmap", "release"};
    (void)stream;
    for (unsigned k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
        double us[CALL_COUNT][CALLS];
        uint64_t bytes = sizes[k] * MIB;
        CUdeviceptr at = reserve(bytes);
        for (unsigned i = 0; i < CALLS; i++) {
            uint64_t begun_ns = clock_now_ns();
            CUmemGenericAllocationHandle handle = create(bytes);
            us[CREATE][i] = us_since(&begun_ns);
            MUST(cuMemMap, (at, bytes, 0, handle, 0));
            us[MAP][i] = us_since(&begun_ns);
            MUST(cuMemSetAccess, (at, bytes, &access_of_all, 1));
            us[ACCESS][i] = us_since(&begun_ns);
            MUST(cuMemUnmap, (at, bytes));
            us[UNMAP][i] = us_since(&begun_ns);
            MUST(cuMemRelease, (handle));
            us[RELEASE][i] = us_since(&begun_ns);
        }
        MUST(cuMemAddressFree, (at, bytes));
        printf(
            "{\"kind\":\"moves\",\"part\":\"calls\",\"handle_bytes\":%" PRIu64,
            bytes);
        for (unsigned call = 0; call < CALL_COUNT; call++) {
            numbers_sort(us[call], CALLS);
            printf(",\"%s_us\":%.1f", names[call],
                   numbers_median(us[call], CALLS));
        }
        printf("}\n");
    }
}

enum range_call { MAP_ALL, ACCESS_ALL, UNMAP_ALL, RANGE_CALL_COUNT };

static void measure_range(uint64_t bytes, unsigned count,
                          const CUmemGenericAllocationHandle *handles)
{
    double us[RANGE_CALL_COUNT][CALLS];
    CUdeviceptr at = reserve(bytes * count);
    for (unsigned i = 0; i < CALLS; i++) {
        uint64_t begun_ns = clock_now_ns();
        for (unsigned k = 0; k < count; k++)
            MUST(cuMemMap, (at + k * bytes, bytes, 0, handles[k], 0));
        us[MAP_ALL][i] = us_since(&begun_ns);
        MUST(cuMemSetAccess, (at, bytes * count, &access_of_all, 1));
        us[ACCESS_ALL][i] = us_since(&begun_ns);
        MUST(cuMemUnmap, (at, bytes * count));
        us[UNMAP_ALL][i] = us_since(&begun_ns);
    }
    MUST(cuMemAddressFree, (at, bytes * count));
    for (unsigned call = 0; call < RANGE_CALL_COUNT; call++)
        numbers_sort(us[call], CALLS);
    printf("{\"kind\":\"moves\",\"part\":\"ranges\",\"handle_bytes\":%" PRIu64
           ",\"handles\":%u,\"map_us\":%.1f,\"access_us\":%.1f,"
           "\"unmap_us\":%.1f}\n",
           bytes, count, numbers_median(us[MAP_ALL], CALLS),
           numbers_median(us[ACCESS_ALL], CALLS),
           numbers_median(us[UNMAP_ALL], CALLS));
}

static void measure_ranges(CUstream stream)
{
    static const uint64_t sizes[] = {2, 8, 32, 64};
    static const unsigned counts[] = {1, 4, 16};
    CUmemGenericAllocationHandle handles[PLACES];
    (void)stream;
    for (unsigned s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
        for (unsigned k = 0; k < PLACES; k++)
            handles[k] = create(sizes[s] * MIB);
        for (unsigned c = 0; c < sizeof(counts) / sizeof(counts[0]); c++)
            measure_range(sizes[s] * MIB, counts[c], handles);
        for (unsigned k = 0; k < PLACES; k++)
            MUST(cuMemRelease, (handles[k]));
    }
}

static void measure_aliases(CUstream stream)
{
    CUmemGenericAllocationHandle handle = create(HANDLE_BYTES);
    CUdeviceptr one = reserve(HANDLE_BYTES);
    CUdeviceptr two = reserve(HANDLE_BYTES);
    uint32_t value = 0;
    map(one, HANDLE_BYTES, handle);
    map(two, HANDLE_BYTES, handle);
    kernels_forget_wrong(&study.kernels, stream);
    kernels_launch(&study.kernels, stream, study.kernels.fill, one, value,
                   WORDS);
    for (uint64_t i = 0; i < study.rounds; i++) {
        /* Old words are in the caches under both addresses. */
        kernels_launch(&study.kernels, stream, study.kernels.check, two, value,
                       WORDS);
        kernels_launch(&study.kernels, stream, study.kernels.check_read_only,
                       two, value, WORDS);
        kernels_launch(&study.kernels, stream, study.kernels.check, one, value,
                       WORDS);
        kernels_launch(&study.kernels, stream, study.kernels.fill, one,
                       value += 1000003, WORDS);
        kernels_launch(&study.kernels, stream, study.kernels.check, two, value,
                       WORDS);
        kernels_launch(&study.kernels, stream, study.kernels.check_read_only,
                       two, value, WORDS);
        kernels_launch(&study.kernels, stream, study.kernels.fill, two,
                       value += 7, WORDS);
        kernels_launch(&study.kernels, stream, study.kernels.check_read_only,
                       one, value, WORDS);
        kernels_launch(&study.kernels, stream, study.kernels.check, two, value,
                       WORDS);
    }
    uint32_t wrong = kernels_count_wrong(&study.kernels, stream);
    kernels_launch(&study.kernels, stream, study.kernels.check, two, value + 1,
                   WORDS);
    uint32_t planted = kernels_count_wrong(&study.kernels, stream) - wrong;
    printf("{\"kind\":\"moves\",\"part\":\"aliases\",\"rounds\":%" PRIu64
           ",\"wrong_words\":%" PRIu32 ",\"planted_words\":%" PRIu32 "}\n",
           study.rounds, wrong, planted);
    must(wrong || !planted ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS, "aliases");
}

/* A handle, which is at one of its places. */
struct moved {
    CUmemGenericAllocationHandle handle;
    CUdeviceptr places;
    uint32_t value;
    unsigned at;
    bool is_mapped[PLACES];
    CUevent left[PLACES]; /* after the last work there */
};

static struct {
    uint64_t waits;
    uint64_t unmaps;
} moving;

static CUdeviceptr place_of(const struct moved *moved, unsigned place)
{
    return moved->places + place * HANDLE_BYTES;
}

static void make_moved(CUstream stream, struct moved *out)
{
    *out = (struct moved){.handle = create(HANDLE_BYTES),
                          .places = reserve(PLACES * HANDLE_BYTES)};
    for (unsigned i = 0; i < PLACES; i++)
        MUST(cuEventCreate, (&out->left[i], CU_EVENT_DISABLE_TIMING));
    map(out->places, HANDLE_BYTES, out->handle);
    out->is_mapped[0] = true;
    kernels_launch(&study.kernels, stream, study.kernels.fill, out->places,
                   out->value, WORDS);
}

static void leave_place(const struct moved *moved, unsigned place)
{
    CUresult code = study.driver->cuEventQuery(moved->left[place]);
    if (code == CUDA_ERROR_NOT_READY) {
        moving.waits++;
        code = study.driver->cuEventSynchronize(moved->left[place]);
    }
    must(code, "event");
    MUST(cuMemUnmap, (place_of(moved, place), HANDLE_BYTES));
    moving.unmaps++;
}

/* Returns how long mapping took, in ns. */
static double move_on(CUstream stream, struct moved *moved, kernel check)
{
    unsigned next = (moved->at + 1) % PLACES;
    CUdeviceptr from = place_of(moved, moved->at);
    CUdeviceptr to = place_of(moved, next);
    if (moved->is_mapped[next])
        leave_place(moved, next);
    kernels_launch(&study.kernels, stream, study.kernels.fill, from,
                   moved->value += 13, WORDS);
    uint64_t begun_ns = clock_now_ns();
    map(to, HANDLE_BYTES, moved->handle);
    double ns = (double)(clock_now_ns() - begun_ns);
    kernels_launch(&study.kernels, stream, check, to, moved->value, WORDS);
    kernels_launch(&study.kernels, stream, study.kernels.fill, to,
                   moved->value += 5, WORDS);
    kernels_launch(&study.kernels, stream, study.kernels.check, from,
                   moved->value, WORDS);
    MUST(cuEventRecord, (moved->left[moved->at], stream));
    moved->is_mapped[next] = true;
    moved->at = next;
    return ns;
}

static void measure_moving(CUstream stream)
{
    static struct moved all[HANDLES];
    double *ns = malloc(study.rounds * sizeof(*ns));
    must(ns ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY, "memory");
    kernels_forget_wrong(&study.kernels, stream);
    for (unsigned i = 0; i < HANDLES; i++)
        make_moved(stream, &all[i]);
    for (uint64_t i = 0; i < study.rounds; i++)
        ns[i] = move_on(stream, &all[i % HANDLES],
                        i % 2 ? study.kernels.check
                              : study.kernels.check_read_only);
    uint32_t wrong = kernels_count_wrong(&study.kernels, stream);
    printf("{\"kind\":\"moves\",\"part\":\"moving\",\"moves\":%" PRIu64
           ",\"wrong_words\":%" PRIu32 ",\"late_unmaps\":%" PRIu64
           ",\"waits\":%" PRIu64,
           study.rounds, wrong, moving.unmaps, moving.waits);
    print_tail(ns, study.rounds);
    free(ns);
    must(wrong ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS, "moving");
}

/* Until when handles are mapped and unmapped. relaxed, and no edge: nothing is
 * read on its strength. */
static atomic_bool mover_goes_on;
static uint64_t mover_moves;

/* Its argument is how many bytes. */
static void *run_mover(void *argument)
{
    const size_t bytes = *(const size_t *)argument;
    (void)bench_device_attach(0);
    CUdeviceptr at = reserve(CALLS * bytes);
    /* relaxed: as above. */
    for (mover_moves = 0;
         atomic_load_explicit(&mover_goes_on, memory_order_relaxed);
         mover_moves++) {
        CUdeviceptr place = at + mover_moves % CALLS * bytes;
        CUmemGenericAllocationHandle handle = create(bytes);
        map(place, bytes, handle);
        MUST(cuMemUnmap, (place, bytes));
        MUST(cuMemRelease, (handle));
    }
    MUST(cuMemAddressFree, (at, CALLS * bytes));
    return NULL;
}

struct launcher {
    CUstream stream;
    CUdeviceptr block;
    double *ns;
};

static void *run_launcher(void *argument)
{
    struct launcher *launcher = argument;
    (void)bench_device_attach(0);
    for (uint64_t i = 0; i < study.rounds; i++) {
        uint64_t begun_ns = clock_now_ns();
        kernels_launch(&study.kernels, launcher->stream, study.kernels.fill,
                       launcher->block, 0, LAUNCHED_WORDS);
        launcher->ns[i] = (double)(clock_now_ns() - begun_ns);
        if (i % LAUNCHES_A_SYNC == LAUNCHES_A_SYNC - 1)
            MUST(cuStreamSynchronize, (launcher->stream));
    }
    return NULL;
}

static void launch_of(struct launcher *launchers, unsigned threads)
{
    for (unsigned i = 0; i < threads; i++)
        MUST(cuMemAlloc, (&launchers[i].block, LAUNCHED_WORDS * 4));
    team_run(run_launcher, launchers, sizeof(*launchers), threads);
    for (unsigned i = 0; i < threads; i++)
        MUST(cuMemFree, (launchers[i].block));
}

/* Beside a thread that moves so many bytes at a time; 0: alone. */
static void launch_beside(struct launcher *launchers, unsigned threads,
                          size_t bytes)
{
    pthread_t mover;
    /* relaxed: the thread begins later. */
    atomic_store_explicit(&mover_goes_on, true, memory_order_relaxed);
    mover_moves = 0;
    if (bytes)
        must(pthread_create(&mover, NULL, run_mover, &bytes)
                 ? CUDA_ERROR_UNKNOWN
                 : CUDA_SUCCESS,
             "a thread");
    launch_of(launchers, threads);
    /* relaxed: as where it is read. */
    atomic_store_explicit(&mover_goes_on, false, memory_order_relaxed);
    if (bytes)
        (void)pthread_join(mover, NULL);
}

static void measure_launches_of(unsigned threads, size_t bytes)
{
    struct launcher launchers[LAUNCHERS_MAX];
    double *ns = malloc(threads * study.rounds * sizeof(*ns));
    must(ns ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY, "memory");
    for (unsigned i = 0; i < threads; i++)
        launchers[i] = (struct launcher){.stream = bench_device_streams[i + 1],
                                         .ns = ns + i * study.rounds};
    launch_beside(launchers, threads, bytes);
    printf("{\"kind\":\"moves\",\"part\":\"launches\",\"threads\":%u,"
           "\"mover_bytes\":%zu,\"moves\":%" PRIu64,
           threads, bytes, mover_moves);
    print_tail(ns, threads * study.rounds);
    free(ns);
}

static void measure_launches(CUstream stream)
{
    static const uint64_t sizes[] = {0, 2, 32, 0};
    (void)stream;
    for (unsigned threads = 1; threads <= LAUNCHERS_MAX;
         threads *= LAUNCHERS_MAX)
        for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
            measure_launches_of(threads, sizes[i] * MIB);
}

static const struct part {
    const char *name;
    void (*measure)(CUstream stream);
    bool has_kernels;
} parts[] = {
    {"calls", measure_calls, false},      {"ranges", measure_ranges, false},
    {"aliases", measure_aliases, true},   {"moving", measure_moving, true},
    {"launches", measure_launches, true}, {NULL, NULL, false},
};

static bool is_part(const char *name, void *into)
{
    const struct part **out = into;
    for (*out = parts; (*out)->name; (*out)++)
        if (strcmp((*out)->name, name) == 0)
            return true;
    return false;
}

/* `only` NULL: all parts. */
static int run(const struct part *only)
{
    const char *why = bench_device_start(1 + LAUNCHERS_MAX);
    if (why || moietyi_driver_open(&study.driver) != MOIETY_OK) {
        (void)fprintf(stderr, "moves: %s\n", why ? why : "no driver");
        return 1;
    }
    if (!only || only->has_kernels)
        kernels_load(study.driver, &study.kernels);
    for (const struct part *part = parts; part->name; part++)
        if (!only || only == part)
            part->measure(bench_device_streams[0]);
    bench_device_stop();
    return 0;
}

int main(int argc, char **argv)
{
    const char *driver = NULL;
    bool is_help = false;
    const struct part *only = NULL;
    const struct command_option options[] = {
        {"part", .read = is_part, .into = &only,
         .refusal = " is none of calls, ranges, aliases, moving, launches"},
        {"rounds", 1, 1000000, .number = &study.rounds},
        {"driver", .text = &driver},
        {"help", .is_given = &is_help},
        {.name = NULL},
    };
    const struct command_line line = {"moves: bad argument", NULL, options,
                                      false};
    if (command_line_read(&line, argc, argv) < 0)
        return 2;
    if (is_help)
        return fputs(help, stdout) < 0;
    return command_line_use_driver(driver) ? run(only) : 1;
}
