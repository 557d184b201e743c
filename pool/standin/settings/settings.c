/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Reads the MOIETY_STANDIN_* environment. A value that cannot be used is named
 * on stderr together with what the setting takes, and cuInit then refuses: a
 * typing error must not silently test something else.
 */
#include "pool/standin/settings/settings.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pool/standin/settings/fault.h"

#define GIB ((size_t)1 << 30)
#define MEMORY_MIN_BYTES ((size_t)2 << 20)
#define MEMORY_MAX_BYTES ((size_t)1 << 40)
#define QUEUE_DEFAULT 1020 /* what a stream of an H200 took */
#define QUEUE_MAX 1000000

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct settings settings;

static void settings_refuse(const char *name, const char *value,
                            const char *accepted)
{
    settings.is_valid = false;
    (void)fprintf(stderr,
                  "moiety stand-in: %s=\"%s\" is not usable; it takes %s\n",
                  name, value, accepted);
}

static bool parse_integer(const char *text, long minimum, long maximum,
                          int *out)
{
    char *end;
    errno = 0;
    long value = strtol(text, &end, 10);
    if (end == text || *end != '\0' || errno || value < minimum ||
        value > maximum)
        return false;
    *out = (int)value;
    return true;
}

/* "8GiB", "512M", "1073741824"; a suffix is a power of 1024. */
static bool parse_bytes(const char *text, size_t *out)
{
    char *end;
    errno = 0;
    if (*text < '0' || *text > '9')
        return false;
    unsigned long long value = strtoull(text, &end, 10);
    const char *units = "KMGT";
    const char *unit = *end ? strchr(units, *end) : NULL;
    unsigned shift = unit ? 10U * (unsigned)(unit - units + 1) : 0;
    if (unit)
        end++;
    if (unit && strcmp(end, "iB") == 0)
        end += 2;
    if (*end != '\0' || errno || value > (MEMORY_MAX_BYTES >> shift))
        return false;
    *out = (size_t)value << shift;
    return *out >= MEMORY_MIN_BYTES;
}

static bool parse_one_pci(const char *text, size_t length,
                          struct pci_address *out)
{
    unsigned domain;
    unsigned bus;
    unsigned device;
    unsigned function;
    char copy[16];
    int used = 0;
    if (length >= sizeof(copy))
        return false;
    memcpy(copy, text, length);
    copy[length] = '\0';
    if (sscanf(copy, "%4x:%2x:%2x.%1x%n", &domain, &bus, &device, &function,
               &used) != 4 ||
        (size_t)used != length || device > 31 || function != 0)
        return false;
    *out = (struct pci_address){(int)domain, (int)bus, (int)device};
    return true;
}

/* One address per device, separated by commas; devices that are not named keep
 * the default. */
static bool parse_pci_list(const char *text, struct pci_address *out)
{
    for (int i = 0; i < STANDIN_DEVICE_MAX; i++) {
        size_t length = strcspn(text, ",");
        if (!parse_one_pci(text, length, &out[i]))
            return false;
        if (text[length] == '\0')
            return true;
        text += length + 1;
    }
    return false;
}

static bool parse_fabric(const char *text, enum standin_fabric *out)
{
    static const char *const words[] = {[STANDIN_FABRIC_NONE] = "none",
                                        [STANDIN_FABRIC_NO_CHANNEL] =
                                            "no_channel",
                                        [STANDIN_FABRIC_READY] = "ready"};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (strcmp(text, words[i]) != 0)
            continue;
        *out = (enum standin_fabric)i;
        return true;
    }
    return false;
}

static void set_defaults(void)
{
    settings.is_valid = true;
    settings.memory_bytes = 8 * GIB;
    settings.device_count = 1;
    settings.host_node = -1;
    settings.driver_version = 13000;
    settings.queue_limit = QUEUE_DEFAULT;
    for (int i = 0; i < STANDIN_DEVICE_MAX; i++)
        settings.pci[i] = (struct pci_address){0, 0x20 + i, 0};
}

static void read_device_settings(void)
{
    int flag;
    const char *value = getenv("MOIETY_STANDIN_MEMORY");
    if (value && !parse_bytes(value, &settings.memory_bytes))
        settings_refuse(
            "MOIETY_STANDIN_MEMORY", value,
            "bytes from 2MiB to 1TiB per device, as 1073741824, 8GiB, 512M");
    value = getenv("MOIETY_STANDIN_DEVICES");
    if (value &&
        !parse_integer(value, 1, STANDIN_DEVICE_MAX, &settings.device_count))
        settings_refuse("MOIETY_STANDIN_DEVICES", value,
                        "a number from 1 to 8");
    value = getenv("MOIETY_STANDIN_PEERS");
    if (value && parse_integer(value, 0, 1, &flag))
        settings.has_no_peers = flag == 0;
    else if (value)
        settings_refuse("MOIETY_STANDIN_PEERS", value, "0 or 1");
    value = getenv("MOIETY_STANDIN_HOST_NODE");
    if (value && !parse_integer(value, -1, 255, &settings.host_node))
        settings_refuse("MOIETY_STANDIN_HOST_NODE", value,
                        "a number from -1 to 255");
    value = getenv("MOIETY_STANDIN_FABRIC");
    if (value && !parse_fabric(value, &settings.fabric))
        settings_refuse("MOIETY_STANDIN_FABRIC", value,
                        "none, no_channel or ready");
    value = getenv("MOIETY_STANDIN_PCI");
    if (value && !parse_pci_list(value, settings.pci))
        settings_refuse("MOIETY_STANDIN_PCI", value,
                        "PCI addresses separated by commas, as 0000:21:00.0");
}

static void read_driver_settings(void)
{
    int flag;
    const char *value = getenv("MOIETY_STANDIN_DRIVER_VERSION");
    if (value && !parse_integer(value, 2000, 99990, &settings.driver_version))
        settings_refuse("MOIETY_STANDIN_DRIVER_VERSION", value,
                        "1000 x major + 10 x minor, as 12040 (default 13000)");
    value = getenv("MOIETY_STANDIN_MEMORY_POOLS");
    if (value && parse_integer(value, 0, 1, &flag))
        settings.has_memory_pools = flag == 1;
    else if (value)
        settings_refuse("MOIETY_STANDIN_MEMORY_POOLS", value, "0 or 1");
    value = getenv("MOIETY_STANDIN_COST");
    settings.is_cost_h200 = value && strcmp(value, "h200") == 0;
    if (value && !settings.is_cost_h200 && strcmp(value, "none") != 0)
        settings_refuse("MOIETY_STANDIN_COST", value, "none or h200");
    value = getenv("MOIETY_STANDIN_QUEUE");
    if (value && !parse_integer(value, 1, QUEUE_MAX, &settings.queue_limit))
        settings_refuse(
            "MOIETY_STANDIN_QUEUE", value,
            "operations from 1 to 1000000 per stream (default 1020)");
    value = getenv("MOIETY_STANDIN_FAULTS");
    if (value && !fault_set_plan(value))
        settings_refuse("MOIETY_STANDIN_FAULTS", value, fault_error());
}

static void read_all(void)
{
    set_defaults();
    read_device_settings();
    read_driver_settings();
}

const struct settings *settings_get(void)
{
    pthread_once(&once, read_all);
    return &settings;
}
