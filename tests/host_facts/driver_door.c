/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/host_facts/driver_door.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

/* ISO C has no conversion from dlsym()'s object pointer to a function's; POSIX
 * promises that the representation is the same. */
static bool find(void *library, const char *symbol, void *entry)
{
    void *address = dlsym(library, symbol);
    memcpy(entry, &address, sizeof address);
    return address != NULL;
}

static bool find_all(struct driver *driver, void *library)
{
    return find(library, "cuInit", &driver->init) &&
           find(library, "cuDriverGetVersion", &driver->driver_get_version) &&
           find(library, "cuGetErrorName", &driver->get_error_name) &&
           find(library, "cuDeviceGetCount", &driver->device_get_count) &&
           find(library, "cuDeviceGetName", &driver->device_get_name) &&
           find(library, "cuDevicePrimaryCtxRetain", &driver->primary_retain) &&
           find(library, "cuCtxSetCurrent", &driver->ctx_set_current) &&
           find(library, "cuMemAlloc_v2", &driver->mem_alloc) &&
           find(library, "cuMemFree_v2", &driver->mem_free) &&
           find(library, "cuIpcGetMemHandle", &driver->ipc_get) &&
           find(library, "cuIpcOpenMemHandle_v2", &driver->ipc_open) &&
           find(library, "cuIpcCloseMemHandle", &driver->ipc_close) &&
           find(library, "cuMemCreate", &driver->mem_create) &&
           find(library, "cuMemRelease", &driver->mem_release) &&
           find(library, "cuMemExportToShareableHandle", &driver->mem_export);
}

const char *driver_open(struct driver *driver)
{
    const char *setting = getenv("MOIETY_DRIVER");
    bool is_file = setting != NULL && strchr(setting, '/') != NULL;
    void *library = dlopen(is_file ? setting : "libcuda.so.1", RTLD_NOW);
    if (library == NULL)
        return dlerror();
    driver->is_standin = dlsym(library, "moiety_standin_version") != NULL;
    return find_all(driver, library) ? NULL : "entries are missing";
}

const char *driver_name_of(const struct driver *driver, CUresult code)
{
    const char *name = NULL;
    if (driver->get_error_name(code, &name) != CUDA_SUCCESS || name == NULL)
        return "a code without a name";
    return name;
}

CUresult driver_begin(const struct driver *driver)
{
    CUcontext context = NULL;
    CUresult code = driver->init(0);
    if (code == CUDA_SUCCESS)
        code = driver->primary_retain(&context, 0);
    return code == CUDA_SUCCESS ? driver->ctx_set_current(context) : code;
}
