/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Finds and opens the driver library. The rule behind all of it: nobody gets
 * the stand-in without asking for it, and nobody who asked for one driver gets
 * another.
 */
#define _GNU_SOURCE
#include "pool/driver/locate.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pool/base/failure.h"

#define CUDA_NAME "libcuda.so.1"
#define STANDIN_NAME "libmoiety_standin.so"
#define STANDIN_MARK "moiety_standin_version"
#define CHOICES "auto, cuda, standin or a path with a / in it"

/* secure_getenv: what names code to load is not taken from the environment of
 * a program with more rights than its caller. */
static const char *setting(const char *name, const char *otherwise)
{
    const char *value = secure_getenv(name);
    return value && *value ? value : otherwise;
}

static bool is_standin(void *handle)
{
    return dlsym(handle, STANDIN_MARK) != NULL;
}

/* Writes the file behind `handle`. The loader makes its records under a lock
 * of its own before any dlopen() of them returns, which ThreadSanitizer does
 * not see: without the mark it reports the thread that came second. */
__attribute__((no_sanitize("thread"))) static void
copy_path(void *handle, char out[MOIETYI_PATH_BYTES])
{
    struct link_map *map = NULL;
    size_t length = 0;
    if (dlinfo(handle, RTLD_DI_LINKMAP, (void *)&map) == 0 && map)
        for (; length < MOIETYI_PATH_BYTES - 1 && map->l_name[length]; length++)
            out[length] = map->l_name[length];
    out[length] = '\0';
}

/* Closes what was opened and is not what was asked for. */
static void *locate_refuse(void *handle, const char *reason)
{
    char path[MOIETYI_PATH_BYTES];
    copy_path(handle, path);
    (void)moietyi_fail(MOIETY_E_NO_DRIVER, "MOIETY_DRIVER=%s (%s)", reason,
                       path);
    dlclose(handle);
    return NULL;
}

static void *locate_open_file(const char *choice, const char *file)
{
    void *handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        (void)moietyi_fail(MOIETY_E_NO_DRIVER, "MOIETY_DRIVER=%s: %s", choice,
                           dlerror());
    return handle;
}

static void *open_auto(void)
{
    void *handle = dlopen(CUDA_NAME, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        (void)moietyi_fail(MOIETY_E_NO_DRIVER,
                           "MOIETY_DRIVER=auto: no CUDA driver on this machine "
                           "(%s); MOIETY_DRIVER=standin needs no GPU",
                           dlerror());
    }
    return handle;
}

static void *open_cuda(void)
{
    void *handle = locate_open_file("cuda", CUDA_NAME);
    if (handle && is_standin(handle))
        return locate_refuse(handle, "cuda: the driver here is the stand-in");
    return handle;
}

/* Two drivers in one process would each believe that they own it, so a driver
 * that is loaded already is either taken or a reason to refuse. */
static void *reuse_loaded(bool *out_is_refused)
{
    void *handle = dlopen(CUDA_NAME, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    *out_is_refused = handle && !is_standin(handle);
    if (*out_is_refused)
        return locate_refuse(handle,
                             "standin: this process has loaded a real driver");
    return handle;
}

/* Writes the file that holds this code: libmoiety.so, or the program that it is
 * linked into. The loader knows a program by argv[0] only, which anyone can set
 * and which need not be true after a chdir(), so the kernel is asked. */
static bool own_file(char out[MOIETYI_PATH_BYTES])
{
    static const char anchor;
    Dl_info info;
    struct link_map *map = NULL;
    if (dladdr1(&anchor, &info, (void **)&map, RTLD_DL_LINKMAP) == 0)
        return false;
    if (map && *map->l_name) {
        int length = snprintf(out, MOIETYI_PATH_BYTES, "%s", map->l_name);
        return length > 0 && length < MOIETYI_PATH_BYTES;
    }
    ssize_t length = readlink("/proc/self/exe", out, MOIETYI_PATH_BYTES - 1);
    if (length <= 0)
        return false;
    out[length] = '\0';
    return true;
}

/* The same file's folder, without a final slash. */
static bool own_folder(char out[MOIETYI_PATH_BYTES])
{
    char *slash = own_file(out) ? strrchr(out, '/') : NULL;
    if (slash)
        *slash = '\0';
    return slash != NULL;
}

/* Writes where the stand-in is beside us; false if it is nowhere there. */
static bool find_neighbour(char out[MOIETYI_PATH_BYTES])
{
    static const char *const places[] = {
        "%s/" STANDIN_NAME,
        "%s/moiety/" STANDIN_NAME,
        "%s/../lib/moiety/" STANDIN_NAME,
        /* Of the Python package, for its library and for its programs. */
        "%s/standin/" CUDA_NAME,
        "%s/../standin/" CUDA_NAME,
    };
    char folder[MOIETYI_PATH_BYTES];
    if (!own_folder(folder))
        return false;
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        int length = snprintf(out, MOIETYI_PATH_BYTES, places[i], folder);
        if (length > 0 && length < MOIETYI_PATH_BYTES && access(out, F_OK) == 0)
            return true;
    }
    return false;
}

static void *open_standin_file(const char *file)
{
    void *handle = locate_open_file("standin", file);
    if (handle && !is_standin(handle))
        return locate_refuse(handle, "standin: this file is something else");
    if (!handle) {
        (void)moietyi_fail(MOIETY_E_NO_DRIVER,
                           "%s; a program that has the library in it names "
                           "the file: MOIETY_DRIVER=PREFIX/lib/" STANDIN_NAME,
                           moietyi_failure_message());
    }
    return handle;
}

static void *open_standin(void)
{
    bool is_refused;
    void *handle = reuse_loaded(&is_refused);
    if (handle || is_refused)
        return handle;
    char path[MOIETYI_PATH_BYTES];
    return open_standin_file(find_neighbour(path) ? path : STANDIN_NAME);
}

/* NULL after moietyi_fail(). */
static void *open_choice(const char *choice)
{
    if (strcmp(choice, "auto") == 0)
        return open_auto();
    if (strcmp(choice, "cuda") == 0)
        return open_cuda();
    if (strcmp(choice, "standin") == 0)
        return open_standin();
    return locate_open_file(choice, choice);
}

static bool is_choice(const char *choice)
{
    return strcmp(choice, "auto") == 0 || strcmp(choice, "cuda") == 0 ||
           strcmp(choice, "standin") == 0 || strchr(choice, '/');
}

static moiety_status check_required(const struct moietyi_library *library,
                                    bool is_gpu_required)
{
    if (!is_gpu_required || !library->is_standin)
        return MOIETY_OK;
    return moietyi_fail(MOIETY_E_NO_DEVICE,
                        "MOIETY_REQUIRE_GPU=1 and the driver is the stand-in "
                        "(%s)",
                        library->path);
}

moiety_status moietyi_library_open(struct moietyi_library *out)
{
    const char *choice = setting("MOIETY_DRIVER", "auto");
    const char *require = setting("MOIETY_REQUIRE_GPU", "0");
    if (!is_choice(choice))
        return moietyi_fail(MOIETY_E_INVALID,
                            "MOIETY_DRIVER=%s: accepted values are " CHOICES,
                            choice);
    if (strcmp(require, "0") != 0 && strcmp(require, "1") != 0) {
        return moietyi_fail(MOIETY_E_INVALID,
                            "MOIETY_REQUIRE_GPU=%s: accepted values are 0 and "
                            "1",
                            require);
    }
    struct moietyi_library library = {.handle = open_choice(choice)};
    if (!library.handle)
        return MOIETY_E_NO_DRIVER;
    copy_path(library.handle, library.path);
    library.is_standin = is_standin(library.handle);
    moiety_status status = check_required(&library, *require == '1');
    if (status != MOIETY_OK)
        moietyi_library_close(&library);
    else
        *out = library;
    return status;
}

void moietyi_library_close(struct moietyi_library *library)
{
    dlclose(library->handle);
    *library = (struct moietyi_library){0};
}
