/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Looks driver functions up in the library that Moiety has opened, so that the
 * examples run on a GPU and on the stand-in without a change.
 */
#include "driver.h"

#include <moiety/moiety.h>
#include <moiety/probe.h>

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#define DRIVER_DEFINE(name, symbol, parameters) int(*name) parameters;
DRIVER_ENTRIES(DRIVER_DEFINE)

/* ISO C has no cast from an object pointer to a function pointer. */
static bool find_entry(void *library, const char *symbol, void *out)
{
    void *entry = dlsym(library, symbol);
    memcpy(out, &entry, sizeof entry);
    if (entry == NULL)
        fprintf(stderr, "the driver has no %s\n", symbol);
    return entry != NULL;
}

static bool find_entries(void *library)
{
#define DRIVER_FIND(name, symbol, parameters)                                  \
    if (!find_entry(library, #symbol, &name))                                  \
        return false;
    DRIVER_ENTRIES(DRIVER_FIND)
    return true;
}

bool driver_did(int code, const char *what)
{
    if (code != CUDA_SUCCESS)
        fprintf(stderr, "%s: the driver says %d\n", what, code);
    return code == CUDA_SUCCESS;
}

bool did(moiety_status status, const char *what)
{
    if (status != MOIETY_OK)
        fprintf(stderr, "%s: %s: %s\n", what, moiety_status_name(status),
                moiety_last_error_message());
    return status == MOIETY_OK;
}

bool driver_open(void)
{
    moiety_caps caps = {.struct_size = sizeof caps};
    if (!did(moiety_probe(0, &caps), "probe"))
        return false;
    /* Moiety keeps it open until the process ends: no dlclose() is needed. */
    void *library = dlopen(caps.library_path, RTLD_NOW);
    moiety_context context;
    return library != NULL && find_entries(library) &&
           driver_did(cuDevicePrimaryCtxRetain(&context, 0), "retain") &&
           driver_did(cuCtxSetCurrent(context), "make current");
}

void driver_close(void)
{
    driver_did(cuDevicePrimaryCtxRelease(0), "release");
}
