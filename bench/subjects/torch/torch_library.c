/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "bench/subjects/torch/torch_library.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char reason[1024];

/* POSIX has dlsym() return functions as pointers to objects; C has no cast for
 * that, only a copy. */
static bool find(void *library, const char *name, void *out)
{
    void *symbol = dlsym(library, name);
    memcpy(out, &symbol, sizeof(symbol));
    return symbol != NULL;
}

const char *torch_library_open(struct torch_library *out)
{
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): the only thread so far. */
    const char *path = getenv("MOIETY_TORCH_SHIM");
    if (!path || !*path)
        return "MOIETY_TORCH_SHIM names no library; "
               "bench/subjects/torch/build_torch_shim.sh makes one where "
               "PyTorch is";
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        /* NOLINTNEXTLINE(concurrency-mt-unsafe): the only thread so far. */
        (void)snprintf(reason, sizeof(reason), "%s", dlerror());
        return reason;
    }
    if (find(library, "moiety_torch_shim_start", &out->start) &&
        find(library, "moiety_torch_shim_attach", &out->attach) &&
        find(library, "moiety_torch_shim_alloc", &out->alloc) &&
        find(library, "moiety_torch_shim_free", &out->free) &&
        find(library, "moiety_torch_shim_limit", &out->limit) &&
        find(library, "moiety_torch_shim_measure", &out->measure) &&
        find(library, "moiety_torch_shim_empty", &out->empty))
        return NULL;
    return "the library that MOIETY_TORCH_SHIM names is no such shim";
}
