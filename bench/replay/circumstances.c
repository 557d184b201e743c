/*
 * SPDX-License-Identifier: Apache-2.0
 */
#define _GNU_SOURCE
#include "bench/replay/circumstances.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench/base/json.h"
#include "bench/base/machine.h"
#include "bench/replay/json.h"
#include "pool/driver/driver_table.h"

static void write_machine(FILE *file, const struct machine *machine)
{
    (void)fputs(",\"machine\":{\"cpu\":", file);
    replay_json_text(file, machine->cpu);
    (void)fprintf(file, ",\"processors\":%ld}", machine->processor_count);
}

static void write_driver(FILE *file, const struct moietyi_driver *driver)
{
    const char *name = strrchr(driver->library_path, '/');
    const char *cost = getenv("MOIETY_STANDIN_COST");
    char text[MOIETYI_PATH_BYTES + 32];
    char device[128] = "unknown";
    CUdevice ordinal;
    if (driver->cuDeviceGet(&ordinal, 0) == CUDA_SUCCESS)
        (void)driver->cuDeviceGetName(device, sizeof(device), ordinal);
    (void)snprintf(text, sizeof(text), "%s, CUDA %d.%d",
                   name ? name + 1 : driver->library_path,
                   driver->version / 1000, driver->version % 1000 / 10);
    (void)fputs(",\"driver\":", file);
    replay_json_text(file, text);
    (void)fputs(",\"device\":", file);
    replay_json_text(file, device);
    json_flag_field(file, "is_standin", driver->is_standin);
    json_flag_field(file, "is_simulated",
                    driver->is_standin && cost && *cost &&
                        strcmp(cost, "none") != 0);
}

static void write_date(FILE *file)
{
    char text[16] = "unknown";
    struct tm day;
    time_t now = time(NULL);
    if (gmtime_r(&now, &day))
        (void)strftime(text, sizeof(text), "%Y-%m-%d", &day);
    (void)fprintf(file, ",\"date\":\"%s\"", text);
}

void replay_circumstances_write(FILE *file, const struct subject *subject,
                                const char *commit)
{
    struct machine machine;
    const struct moietyi_driver *driver =
        subject->needs_driver ? moietyi_driver_opened() : NULL;
    machine_describe(commit, &machine);
    write_machine(file, &machine);
    if (driver)
        write_driver(file, driver);
    else
        (void)fputs(",\"driver\":null,\"device\":null,\"is_standin\":false"
                    ",\"is_simulated\":false",
                    file);
    (void)fputs(",\"commit\":", file);
    replay_json_text(file, machine.commit);
    write_date(file);
}
