/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What the numbers of a run are of: machine, driver, device, and where an arena
 * with the default options is.
 */
#include <stdlib.h>
#include <string.h>

#include <moiety/host.h>
#include <moiety/status.h>

#include "bench/base/machine.h"
#include "bench/host/host.h"
#include "bench/host/rig.h"
#include "bench/host/room.h"
#include "bench/host/row.h"

static void print_driver(void)
{
    const struct moietyi_driver *driver = host_driver();
    const char *name = strrchr(driver->library_path, '/');
    const char *cost = getenv("MOIETY_STANDIN_COST");
    char device[128] = "unknown";
    CUdevice ordinal;
    if (driver->cuDeviceGet(&ordinal, 0) == CUDA_SUCCESS)
        (void)driver->cuDeviceGetName(device, sizeof(device), ordinal);
    host_row_text("driver", name ? name + 1 : driver->library_path);
    host_row_count("driver_version", (uint64_t)driver->version);
    host_row_flag("is_standin", driver->is_standin);
    host_row_flag("simulated_costs", driver->is_standin && cost && *cost &&
                                         strcmp(cost, "none") != 0);
    host_row_text("device", device);
}

static void print_machine(const struct host_options *options)
{
    struct machine machine;
    uint64_t nodes[4];
    uint64_t node_count = 0;
    machine_describe(options->commit, &machine);
    host_room_nodes(nodes);
    for (unsigned i = 0; i < 256; i++)
        node_count += nodes[i / 64] >> i % 64 & 1;
    host_row_text("cpu", machine.cpu);
    host_row_count("processors", (uint64_t)machine.processor_count);
    host_row_count("nodes_with_memory", node_count);
    host_row_count("room_bytes", host_room_bytes());
    host_row_text("commit", machine.commit);
}

static const char *print_place(void)
{
    moiety_host *arena;
    char report[1024];
    const char *conf = getenv("MOIETY_CONF");
    if (moiety_host_create(NULL, &arena) != MOIETY_OK)
        return moiety_last_error_message();
    if (moiety_host_report(arena, report, sizeof(report)) == MOIETY_OK)
        host_row_text("place", report);
    host_row_text("moiety_conf", conf ? conf : "");
    return moiety_host_destroy(arena, NULL) == MOIETY_OK
               ? NULL
               : moiety_last_error_message();
}

void host_about(const struct host_options *options)
{
    host_row_begin("run", NULL);
    print_driver();
    print_machine(options);
    host_row_count("repeats", options->repeats);
    host_row_count("budget_s", options->budget_s);
    host_row_count("cell_ms", options->cell_ms);
    const char *why = print_place();
    if (why)
        host_row_fail(why);
    else
        host_row_end();
}
