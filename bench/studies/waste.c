/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What memory a pool spends on top of what it is asked for: per request, in a
 * fresh pool, and on the host. --help says what is printed.
 */
#include "bench/studies/waste.h"

#include "bench/base/command_line.h"

static const char help[] =
    "usage: waste [--json=FILE] [--all] [--driver=D]\n"
    "  --json=FILE  writes every number as a JSON object a line\n"
    "  --all        prints every request, not one line a doubling\n"
    "  --driver=D   auto, cuda, standin or a path with a / in it (default: "
    "what\n"
    "               MOIETY_DRIVER says)\n"
    "\n"
    "Prints Markdown. Requests go from 1 byte to 4 GiB: the powers of two and\n"
    "their eighths, one byte less and one more; and up to 1 MiB the last size "
    "of\n"
    "every size class and the one after it. A request holds what\n"
    "moiety_usable_size() says, in a pool without caches, so that no larger "
    "block\n"
    "that happens to be cached serves it. \"Over\" is what it holds beyond "
    "the\n"
    "request, by the request. Beside it stands the next power of two from 512\n"
    "bytes up, which an allocator that rounds so would hold.\n"
    "Reserved is what a pool with its default options has from the driver "
    "after\n"
    "its first request, of 2.083 GiB.\n"
    "Metadata is by how much the process' resident memory grows while a "
    "segment\n"
    "of 1 GiB, less 2 MiB, is cut into blocks of one size, in a process of its "
    "own\n"
    "each; the segment is reserved before, and the caller's table of "
    "addresses\n"
    "is there.\n"
    "\n"
    "exit status: 0 all well; 1 something failed; 2 bad argument\n";

static bool parse(int argc, char **argv, struct waste_options *out)
{
    const struct command_option options[] = {
        {"json", .text = &out->json_path},
        {"driver", .text = &out->driver},
        {"all", .is_given = &out->is_all},
        {"help", .is_given = &out->is_help},
        /* Of our own. */
        {"metadata", 1, UINT64_MAX, .number = &out->metadata_of_bytes},
        {.name = NULL},
    };
    const struct command_line line = {"waste", NULL, options, false};
    *out = (struct waste_options){0};
    return command_line_read(&line, argc, argv) >= 0;
}

static bool print_all(const struct waste_options *options, FILE *json)
{
    bool is_well = waste_requests(options, json);
    is_well &= waste_fresh_pool(json);
    is_well &= waste_metadata(json);
    return is_well;
}

int main(int argc, char **argv)
{
    struct waste_options options;
    FILE *json = NULL;
    if (!parse(argc, argv, &options))
        return 2;
    if (options.is_help) {
        (void)fputs(help, stdout);
        return 0;
    }
    if (!command_line_use_driver(options.driver))
        return 1;
    if (options.metadata_of_bytes)
        return waste_metadata_child(options.metadata_of_bytes) ? 0 : 1;
    if (options.json_path) {
        json = fopen(options.json_path, "we");
        if (!json) {
            perror("waste: --json");
            return 1;
        }
    }
    bool is_well = print_all(&options, json);
    if (json)
        is_well &= fclose(json) == 0;
    return is_well ? 0 : 1;
}
