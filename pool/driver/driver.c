/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Opens the driver and fills its table. There is no lock, because a lock
 * held across dlopen() or cuInit() can meet the loader's: every thread that
 * comes early builds a table of its own, one of them is published, the others
 * are thrown away. All of it is idempotent in the loader and in the driver.
 */
#include <dlfcn.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "pool/base/cancel.h"
#include "pool/base/failure.h"
#include "pool/base/fork_mark.h"
#include "pool/base/lock.h"
#include "pool/driver/driver_table.h"
#include "pool/driver/locate.h"
#include "pool/driver/resolve.h"

static moiety_status refuse_old(const struct moietyi_driver *driver,
                                const char *missing)
{
    return moietyi_fail(MOIETY_E_UNSUPPORTED,
                        "the driver (%s, CUDA %d.%d) lacks %s; a driver of "
                        "CUDA %d.%d or newer is needed",
                        driver->library_path, driver->version / 1000,
                        driver->version % 1000 / 10, missing,
                        MOIETYI_DRIVER_VERSION_MIN / 1000,
                        MOIETYI_DRIVER_VERSION_MIN % 1000 / 10);
}

#if MOIETYI_WATCH_LOCKS
/* The stand-in has our check made at each call. */
static void watch_calls(const struct moietyi_library *library)
{
    void (*watch)(void (*)(const char *)) = NULL;
    if (library->is_standin)
        *(void **)&watch = dlsym(library->handle, "moiety_standin_watch");
    if (watch)
        watch(moietyi_locks_check);
}
#else
static void watch_calls(const struct moietyi_library *library)
{
    (void)library;
}
#endif

static moiety_status driver_fill(struct moietyi_driver *driver,
                                 const struct moietyi_library *library)
{
    const char *missing = NULL;
    driver->library = library->handle;
    memcpy(driver->library_path, library->path, sizeof(library->path));
    driver->is_standin = library->is_standin;
    watch_calls(library);
    moiety_status status = moietyi_driver_resolve(driver, &missing);
    if (status != MOIETY_OK)
        return status;
    if (missing)
        return refuse_old(driver, missing);
    status = MOIETYI_CALL(driver, cuInit, (0));
    if (status != MOIETY_OK)
        status = moietyi_fail(status, "%s; the driver is %s",
                              moietyi_failure_message(), library->path);
    return status;
}

/* A table of an initialised driver, or NULL and why. */
static struct moietyi_driver *driver_make(moiety_status *out_status)
{
    struct moietyi_library library;
    *out_status = moietyi_library_open(&library);
    if (*out_status != MOIETY_OK)
        return NULL;
    struct moietyi_driver *driver = calloc(1, sizeof(*driver));
    *out_status = driver ? driver_fill(driver, &library)
                         : moietyi_fail(MOIETY_E_NO_HOST_MEMORY,
                                        "no memory for the driver table");
    if (*out_status == MOIETY_OK)
        return driver;
    free(driver);
    moietyi_library_close(&library);
    return NULL;
}

/* Makes `driver` the process's, or drops it if another thread was faster. */
static void publish_or_drop(struct moietyi_driver *driver)
{
    if (moietyi_driver_publish(driver))
        return;
    /* Gives one reference back; the winner holds another. */
    dlclose(driver->library);
    free(driver);
}

moiety_status moietyi_driver_open(const struct moietyi_driver **out)
{
    if (!moietyi_fork_mark())
        return moietyi_refuse_unmarked();
    if (moietyi_is_forked())
        return moietyi_refuse_child();
    if (!moietyi_driver_opened()) {
        moiety_status status;
        int cancel_state = moietyi_cancel_hold();
        struct moietyi_driver *driver = driver_make(&status);
        if (driver)
            publish_or_drop(driver);
        moietyi_cancel_restore(cancel_state);
        if (!driver)
            return status;
    }
    *out = moietyi_driver_opened();
    return MOIETY_OK;
}
