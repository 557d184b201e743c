/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "bench/server/introduction.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/server/round_trip.h"

bool server_is_simulated(const binade_caps *caps)
{
    const char *cost = getenv("BINADE_STANDIN_COST");
    return caps->is_standin && cost && *cost && strcmp(cost, "none") != 0;
}

/* Nobody may take what a stand-in does, or how long it takes, for a GPU's: this
 * comes before anything else. */
static void warn_of_standin(const binade_caps *caps)
{
    if (server_is_simulated(caps))
        printf("*** STAND-IN DRIVER: no GPU; costs are simulated "
               "(BINADE_STANDIN_COST=%s)\n",
               getenv("BINADE_STANDIN_COST"));
    else
        puts("*** STAND-IN DRIVER: no GPU; driver costs are those of this "
             "machine");
    puts("*** Device memory is host memory, and processors do the device's "
         "work.");
}

static void print_driver(const binade_caps *caps)
{
    if (caps->is_standin)
        warn_of_standin(caps);
    printf("Binade %s\n", binade_version());
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

static void complain(const char *what, binade_status status)
{
    (void)fprintf(stderr, "server: %s: %s: %s\n", what,
                  binade_status_name(status), binade_last_error_message());
}

static enum server_exit travel(int device)
{
    struct round_trip trip;
    binade_status status = round_trip(device, &trip);
    if (status != BINADE_OK) {
        complain("round trip", status);
        return SERVER_WRONG;
    }
    printf("round trip  %zu bytes to the device and back, %zu of them set "
           "there: ",
           trip.size_bytes, trip.set_bytes);
    if (trip.wrong_bytes == 0)
        puts("all as they should be");
    else
        printf("%zu bytes are WRONG\n", trip.wrong_bytes);
    return trip.wrong_bytes == 0 ? SERVER_OK : SERVER_WRONG;
}

enum server_exit server_introduce(int device, binade_caps *out)
{
    binade_caps caps = {.struct_size = sizeof(caps)};
    binade_status status = binade_probe(device, &caps);
    if (status != BINADE_OK) {
        complain("probe", status);
        return status == BINADE_E_DRIVER ? SERVER_WRONG : SERVER_NO_DRIVER;
    }
    print_driver(&caps);
    print_device(device, &caps);
    print_features(&caps);
    *out = caps;
    return travel(device);
}
