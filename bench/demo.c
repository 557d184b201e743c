/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The demo: opens a driver, says loudly which one, prints what the device can
 * do, and sends bytes on a stream-ordered round trip that it checks. It asks
 * for the stand-in by default, so that it runs on any machine; no other program
 * gets the stand-in without asking.
 */
#define _POSIX_C_SOURCE 200809L
#include <binade/binade.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/round_trip.h"

enum exit_code {
    EXIT_OK = 0,
    EXIT_WRONG = 1,     /* the round trip failed or changed the bytes */
    EXIT_USAGE = 2,     /* unknown argument */
    EXIT_NO_DRIVER = 3, /* no driver or device that was asked for */
};

static const char usage[] =
    "usage: demo [--driver=standin|auto|cuda|PATH] [--device=INDEX]\n"
    "  --driver=standin  the stand-in driver, no GPU needed (default)\n"
    "  --driver=auto     this machine's CUDA driver\n"
    "  --driver=cuda     the same, never a stand-in\n"
    "  --driver=PATH     this library, a path with a / in it\n"
    "  --device=INDEX    device to use, from 0 (default 0)\n"
    "exit status: 0 all well; 1 the round trip failed; 2 bad argument;\n"
    "             3 no such driver or device\n";

struct options {
    const char *driver;
    int device;
    int is_help;
};

/* The text after `name` if `argument` starts with it, or NULL. */
static const char *value_of(const char *argument, const char *name)
{
    size_t length = strlen(name);
    return strncmp(argument, name, length) == 0 ? argument + length : NULL;
}

/* 0, or -1 for a text that is no device index. */
static int parse_index(const char *text, int *out)
{
    char *end;
    long value = strtol(text, &end, 10);
    if (end == text || *end || value < 0 || value > 1023)
        return -1;
    *out = (int)value;
    return 0;
}

/* 0, or -1 after saying what is wrong. */
static int parse(int argc, char **argv, struct options *out)
{
    *out = (struct options){.driver = "standin"};
    for (int i = 1; i < argc; i++) {
        const char *driver = value_of(argv[i], "--driver=");
        const char *device = value_of(argv[i], "--device=");
        if (strcmp(argv[i], "--help") == 0) {
            out->is_help = 1;
        } else if (driver && *driver) {
            out->driver = driver;
        } else if (!device || parse_index(device, &out->device) != 0) {
            (void)fprintf(stderr, "demo: %s is not accepted\n%s", argv[i],
                          usage);
            return -1;
        }
    }
    return 0;
}

/* Nobody may take what a stand-in does, or how long it takes, for a GPU's. */
static void warn_of_standin(void)
{
    const char *cost = getenv("BINADE_STANDIN_COST");
    puts("*** STAND-IN DRIVER: no GPU is used, device memory is host memory "
         "***");
    if (cost && *cost && strcmp(cost, "none") != 0)
        printf("*** costs are simulated (BINADE_STANDIN_COST=%s) ***\n", cost);
    else
        puts("*** driver costs are those of this machine, not of a GPU ***");
}

static void print_driver(const binade_caps *caps)
{
    printf("Binade %s\n", binade_version());
    if (caps->is_standin)
        warn_of_standin();
    printf("driver      %s, CUDA %d.%d\n", caps->library_path,
           caps->driver_version / 1000, caps->driver_version % 1000 / 10);
}

static void print_device(int device, const binade_caps *caps)
{
    printf("device      %d of %d: %s, compute %d.%d, %.1f GiB\n", device,
           caps->device_count, caps->device_name, caps->compute_major,
           caps->compute_minor,
           (double)caps->total_memory_bytes / (double)(UINT64_C(1) << 30));
    printf("PCI address %04x:%02x:%02x, nearest host NUMA node %d\n",
           caps->pci_domain, caps->pci_bus, caps->pci_device,
           caps->host_numa_node);
    printf("identity    ");
    for (size_t i = 0; i < sizeof(caps->uuid); i++)
        printf("%02x%s", caps->uuid[i],
               i == 3 || i == 5 || i == 7 || i == 9 ? "-" : "");
    printf("\nVMM granule %llu bytes\n",
           (unsigned long long)caps->vmm_granularity_bytes);
}

static void print_features(const binade_caps *caps)
{
    const char *name;
    for (uint64_t bit = 1; (name = binade_feature_name(bit)) != NULL; bit <<= 1)
        printf("  %-3s  %s\n", caps->features & bit ? "yes" : "no", name);
}

static int complain(const char *what, binade_status status)
{
    (void)fprintf(stderr, "demo: %s: %s: %s\n", what,
                  binade_status_name(status), binade_last_error_message());
    return status == BINADE_E_DRIVER ? EXIT_WRONG : EXIT_NO_DRIVER;
}

static int travel(int device)
{
    struct round_trip trip;
    binade_status status = round_trip(device, &trip);
    if (status != BINADE_OK) {
        complain("round trip", status);
        return EXIT_WRONG;
    }
    printf("round trip  %zu bytes to the device and back, %zu of them set "
           "there: ",
           trip.size_bytes, trip.set_bytes);
    if (trip.wrong_bytes == 0)
        puts("all as they should be");
    else
        printf("%zu bytes are WRONG\n", trip.wrong_bytes);
    return trip.wrong_bytes == 0 ? EXIT_OK : EXIT_WRONG;
}

int main(int argc, char **argv)
{
    struct options options;
    if (parse(argc, argv, &options) != 0)
        return EXIT_USAGE;
    if (options.is_help) {
        (void)fputs(usage, stdout);
        return EXIT_OK;
    }
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): the only thread so far. */
    if (setenv("BINADE_DRIVER", options.driver, 1) != 0)
        return EXIT_WRONG;
    binade_caps caps = {.struct_size = sizeof(caps)};
    binade_status status = binade_probe(options.device, &caps);
    if (status != BINADE_OK)
        return complain("probe", status);
    print_driver(&caps);
    print_device(options.device, &caps);
    print_features(&caps);
    return travel(options.device);
}
