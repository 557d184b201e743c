/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * How much of a limit can be live in blocks of one size: a new subject with a
 * limit is filled until it is out of memory. --help says what is printed.
 *
 * It does not show what a program reaches whose blocks differ in size, or are
 * freed in between.
 */
#include <math.h>
#include <stdlib.h>

#include "bench/base/random.h"
#include "bench/studies/study.h"

#define KIB UINT64_C(1024)
#define MIB (KIB * KIB)
#define GRAIN_BYTES UINT64_C(512)
#define RANDOM_MAX 100000U
#define SIZES_MAX 256U
/* A random size fits three times at least. */
#define RANDOM_PART 3

static const char help[] =
    "usage: fill [OPTION]...\n"
    "  --subject=S[,S]  which allocators, as `replay --list` names them\n"
    "                   (default: all)\n"
    "  --limit=BYTES    memory that a subject may have of its driver, 2 MiB "
    "to\n"
    "                   1 TiB (default 1 GiB)\n"
    "  --size=B[,B]     block sizes, 1 to 1 TiB, 256 at most (default: 33 "
    "from\n"
    "                   512 B to 300 MiB, around what allocators round to)\n"
    "  --random=N       also N sizes, 512 B to a third of the limit, equally\n"
    "                   likely on a logarithmic scale, 0 to 100000 (default "
    "0)\n"
    "  --seed=N         of these (default 1)\n" STUDY_HELP "\n"
    "Prints a JSON object for each subject and size: how many blocks there "
    "were\n"
    "when an allocation failed, and which part that is of what would fit if\n"
    "nothing were lost, where a block is its size rounded up to 512 B.\n"
    "bench/tables/replay_table.py makes a table of them, \"fill\".\n"
    "\n"
    "exit status: 0 all well; 1 a subject could not be filled; 2 bad "
    "argument\n";

static const uint64_t default_sizes[] = {
    512,       5 * KIB,       9 * KIB,       17 * KIB,    20 * KIB,
    24 * KIB,  33 * KIB,      36 * KIB,      66 * KIB,    100 * KIB,
    130 * KIB, 200 * KIB,     257 * KIB,     300 * KIB,   420 * KIB,
    520 * KIB, 600 * KIB,     700 * KIB,     900 * KIB,   MIB,
    MIB + 1,   MIB * 11 / 10, 2 * MIB,       2 * MIB + 1, MIB * 21 / 10,
    3 * MIB,   MIB * 41 / 10, MIB * 61 / 10, 8 * MIB,     MIB * 101 / 10,
    33 * MIB,  100 * MIB,     300 * MIB,
};

#define DEFAULT_COUNT (sizeof(default_sizes) / sizeof(default_sizes[0]))

static struct {
    uint64_t limit_bytes;
    uint64_t sizes[SIZES_MAX];
    uint32_t size_count;
    uint64_t random_count;
} fill = {.limit_bytes = KIB * MIB};

static uint64_t rounded(uint64_t size_bytes)
{
    return (size_bytes + GRAIN_BYTES - 1) / GRAIN_BYTES * GRAIN_BYTES;
}

/* How many blocks there were; all are freed. */
static uint64_t count_blocks(const struct subject *subject, uint64_t size_bytes,
                             uint64_t *blocks, uint64_t room)
{
    uint64_t count = 0;
    while (count < room && (blocks[count] = subject->alloc(0, size_bytes, 0)))
        count++;
    for (uint64_t i = 0; i < count; i++)
        subject->free(0, blocks[i], size_bytes, SUBJECT_STREAM_DONE);
    return count;
}

static const char *fill_one(const struct subject *subject, uint64_t size_bytes,
                            uint64_t *out_count)
{
    const struct subject_setup setup = {
        .thread_count = 1, .stream_count = 1, .limit_bytes = fill.limit_bytes};
    /* One more than fits if it took no more than it was asked for. */
    uint64_t room = fill.limit_bytes / size_bytes + 1;
    const char *why = study_start_subject(subject, &setup);
    if (why)
        return why;
    uint64_t *blocks = calloc(room, sizeof(*blocks));
    if (!blocks)
        why = "there is no host memory";
    else if (subject->attach && !subject->attach(0))
        why = "a thread cannot use it";
    else
        *out_count = count_blocks(subject, size_bytes, blocks, room);
    free(blocks);
    subject->stop();
    return why;
}

static bool print_one(const struct study_bout *bout, uint64_t size_bytes,
                      bool is_random)
{
    uint64_t count;
    const char *why = fill_one(bout->subject, size_bytes, &count);
    if (why)
        return study_refuse(bout, why);
    uint64_t most = fill.limit_bytes / rounded(size_bytes);
    study_begin_row(bout);
    study_number(bout, "limit_bytes", fill.limit_bytes);
    study_number(bout, "size_bytes", size_bytes);
    (void)fprintf(bout->study->rows, ",\"is_random\":%s",
                  is_random ? "true" : "false");
    study_number(bout, "blocks", count);
    study_number(bout, "most_blocks", most);
    study_end_row(bout);
    return true;
}

static bool run(const struct study_bout *bout)
{
    uint64_t random = random_start(bout->study->seed, 0);
    double range = (double)(fill.limit_bytes / RANDOM_PART) / GRAIN_BYTES;
    const uint64_t *sizes = fill.size_count ? fill.sizes : default_sizes;
    size_t count = fill.size_count ? fill.size_count : DEFAULT_COUNT;
    for (size_t i = 0; i < count; i++)
        if (!print_one(bout, sizes[i], false))
            return false;
    for (uint64_t i = 0; i < fill.random_count; i++) {
        double size_bytes =
            (double)GRAIN_BYTES * pow(range, random_unit(&random));
        if (!print_one(bout, (uint64_t)size_bytes, true))
            return false;
    }
    return true;
}

int main(int argc, char **argv)
{
    static const struct study_part parts[] = {{"fill", run}, {NULL, NULL}};
    static const struct command_option options[] = {
        {"limit", 2 * MIB, MIB * MIB, .number = &fill.limit_bytes,
         .is_bytes = true},
        {"size", 1, MIB * MIB, .is_bytes = true, .list = fill.sizes,
         .list_count = &fill.size_count, .list_max = SIZES_MAX},
        {"random", 0, RANDOM_MAX, .number = &fill.random_count},
        {.name = NULL},
    };
    struct study study = {.program = "fill",
                          .help = help,
                          .options = options,
                          .parts = parts,
                          .repeats = 1,
                          .seed = 1};
    return study_main(&study, argc, argv);
}
