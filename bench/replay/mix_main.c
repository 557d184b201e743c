/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Writes mixes of blocks as traces: --help says how.
 */
#include <stdio.h>
#include <string.h>

#include "bench/replay/mix.h"

#define PATH_BYTES 4096U

enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

static const char help[] =
    "usage: mix FOLDER SET|PLACES:LEAST:MOST:SEED:STEPS...\n"
    "Writes traces (docs/dev/trace-format.md) of one thread and one stream "
    "into a "
    "folder,\n"
    "a file NAME.mtrace for each mix: at each of STEPS one of PLACES is "
    "chosen;\n"
    "if it is empty it gets a block of LEAST to MOST bytes, equally likely on "
    "a\n"
    "logarithmic scale, else it loses its block. Same numbers, same trace.\n"
    "\n"
    "sets:\n";

static void print_help(void)
{
    (void)fputs(help, stdout);
    for (const struct mix_set *set = mix_sets; set->name; set++) {
        printf("  %-8s %s\n", set->name, set->description);
        for (uint32_t i = 0; i < set->count; i++)
            printf("             %s\n", set->mixes[i].name);
    }
    (void)fputs("\n"
                "exit status: 0 all well; 1 a file could not be written; "
                "2 bad argument\n",
                stdout);
}

static const struct mix_set *set_named(const char *name)
{
    for (const struct mix_set *set = mix_sets; set->name; set++)
        if (strcmp(set->name, name) == 0)
            return set;
    return NULL;
}

static bool write_one(const char *folder, const struct mix *mix)
{
    char path[PATH_BYTES];
    int length =
        snprintf(path, sizeof(path), "%s/%s.mtrace", folder, mix->name);
    FILE *file = length < (int)sizeof(path) ? fopen(path, "we") : NULL;
    if (!file) {
        perror(path);
        return false;
    }
    bool is_written = mix_write(mix, file);
    is_written &= fclose(file) == 0;
    if (!is_written)
        (void)fprintf(stderr, "mix: %s could not be written\n", path);
    return is_written;
}

static int write_named(const char *folder, const char *name)
{
    struct mix one;
    const struct mix_set *set = set_named(name);
    if (!set && !mix_parse(name, &one)) {
        (void)fprintf(stderr,
                      "mix: %s is no set and no PLACES:LEAST:MOST:SEED:STEPS, "
                      "up to 4096, 2^40, 2^40, 2^64 - 2 and 1000000; --help "
                      "says what is\n",
                      name);
        return EXIT_USAGE;
    }
    if (!set)
        return write_one(folder, &one) ? EXIT_DONE : EXIT_FAILED;
    for (uint32_t i = 0; i < set->count; i++)
        if (!write_one(folder, &set->mixes[i]))
            return EXIT_FAILED;
    return EXIT_DONE;
}

int main(int argc, char **argv)
{
    int code = EXIT_DONE;
    if (argc == 2 && strcmp(argv[1], "--help") == 0) {
        print_help();
        return EXIT_DONE;
    }
    if (argc < 3) {
        (void)fputs("mix: a folder and a mix are wanted; --help says more\n",
                    stderr);
        return EXIT_USAGE;
    }
    for (int i = 2; i < argc && code == EXIT_DONE; i++)
        code = write_named(argv[1], argv[i]);
    return code;
}
