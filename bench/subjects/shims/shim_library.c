/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "bench/subjects/shims/shim_library.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char reason[1024];

__attribute__((format(printf, 1, 2))) static const char *
because(const char *format, ...)
{
    va_list words;
    va_start(words, format);
    (void)vsnprintf(reason, sizeof(reason), format, words);
    va_end(words);
    return reason;
}

/* POSIX has dlsym() return functions as pointers to objects; C has no cast for
 * that, only a copy. */
static bool find(void *library, const char *name, void *out)
{
    void *symbol = dlsym(library, name);
    memcpy(out, &symbol, sizeof(symbol));
    return symbol != NULL;
}

const char *shim_library_open(const char *variable, struct shim_library *out)
{
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): the only thread so far. */
    const char *path = getenv(variable);
    if (!path || !*path)
        return because(
            "%s names no library; bench/subjects/shims/build_shim.sh "
            "makes one",
            variable);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        /* NOLINTNEXTLINE(concurrency-mt-unsafe): the only thread so far. */
        return because("%s", dlerror());
    if (find(library, "moiety_shim_start", &out->start) &&
        find(library, "moiety_shim_attach", &out->attach) &&
        find(library, "moiety_shim_alloc", &out->alloc) &&
        find(library, "moiety_shim_free", &out->free) &&
        find(library, "moiety_shim_measure", &out->measure) &&
        find(library, "moiety_shim_stop", &out->stop))
        return NULL;
    return because("the library that %s names is no such shim", variable);
}
