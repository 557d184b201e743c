/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tests/support/driver_probe.h"

#include <dlfcn.h>
#include <string.h>

#include "pool/driver/driver_table.h"
#include "pool/driver/status.h"

static const struct {
    const char *name;
    size_t offset_bytes; /* in the table */
} entries[] = {
#define ENTRY(base, version, symbol, need, memory, parameters)                 \
    {#base, offsetof(struct moietyi_driver, base)},
#include "pool/driver/cuda_entries.inc"
};

/* driver_probe_entry_count() for a name that is not there. */
static size_t index_of(const char *entry)
{
    size_t index = 0;
    while (index < driver_probe_entry_count() &&
           strcmp(entries[index].name, entry) != 0)
        index++;
    return index;
}

size_t driver_probe_entry_count(void)
{
    return sizeof(entries) / sizeof(entries[0]);
}

const char *driver_probe_entry_name(size_t index)
{
    return entries[index].name;
}

int driver_probe_status(const char *entry, int code)
{
    size_t index = index_of(entry);
    if (index == driver_probe_entry_count())
        return -1;
    return (int)moietyi_driver_status((enum moietyi_entry)index,
                                      (CUresult)code);
}

moiety_status driver_probe_open(void)
{
    const struct moietyi_driver *driver;
    return moietyi_driver_open(&driver);
}

void *driver_probe_function(const char *entry)
{
    const struct moietyi_driver *driver = moietyi_driver_opened();
    size_t index = index_of(entry);
    void *function = NULL;
    if (driver && index < driver_probe_entry_count())
        memcpy(&function, (const char *)driver + entries[index].offset_bytes,
               sizeof(function));
    return function;
}

void *driver_probe_symbol(const char *name)
{
    const struct moietyi_driver *driver = moietyi_driver_opened();
    return driver ? dlsym(driver->library, name) : NULL;
}
