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
#include "pool/driver/driver_table.h"
#include "pool/driver/locate.h"
#include "pool/driver/resolve.h"

static binade_status refuse_old(const struct binadei_driver *driver,
                                const char *missing)
{
    return binadei_fail(BINADE_E_UNSUPPORTED,
                        "the driver (%s, CUDA %d.%d) lacks %s; a driver of "
                        "CUDA %d.%d or newer is needed",
                        driver->library_path, driver->version / 1000,
                        driver->version % 1000 / 10, missing,
                        BINADEI_DRIVER_VERSION_MIN / 1000,
                        BINADEI_DRIVER_VERSION_MIN % 1000 / 10);
}

static binade_status driver_fill(struct binadei_driver *driver,
                                 const struct binadei_library *library)
{
    const char *missing = NULL;
    driver->library = library->handle;
    memcpy(driver->library_path, library->path, sizeof(library->path));
    driver->is_standin = library->is_standin;
    binade_status status = binadei_driver_resolve(driver, &missing);
    if (status != BINADE_OK)
        return status;
    if (missing)
        return refuse_old(driver, missing);
    status = BINADEI_CALL(driver, cuInit, (0));
    if (status != BINADE_OK)
        status = binadei_fail(status, "%s; the driver is %s",
                              binadei_failure_message(), library->path);
    return status;
}

/* A table of an initialised driver, or NULL and why. */
static struct binadei_driver *driver_make(binade_status *out_status)
{
    struct binadei_library library;
    *out_status = binadei_library_open(&library);
    if (*out_status != BINADE_OK)
        return NULL;
    struct binadei_driver *driver = calloc(1, sizeof(*driver));
    *out_status = driver ? driver_fill(driver, &library)
                         : binadei_fail(BINADE_E_NO_HOST_MEMORY,
                                        "no memory for the driver table");
    if (*out_status == BINADE_OK)
        return driver;
    free(driver);
    binadei_library_close(&library);
    return NULL;
}

/* Makes `driver` the process's, or drops it if another thread was faster. */
static void publish_or_drop(struct binadei_driver *driver)
{
    if (binadei_driver_publish(driver))
        return;
    /* Gives one reference back; the winner holds another. */
    dlclose(driver->library);
    free(driver);
}

binade_status binadei_driver_open(const struct binadei_driver **out)
{
    if (!binadei_fork_mark())
        return binadei_refuse_unmarked();
    if (binadei_is_forked())
        return binadei_refuse_child();
    if (!binadei_driver_opened()) {
        binade_status status;
        int cancel_state = binadei_cancel_hold();
        struct binadei_driver *driver = driver_make(&status);
        if (driver)
            publish_or_drop(driver);
        binadei_cancel_restore(cancel_state);
        if (!driver)
            return status;
    }
    *out = binadei_driver_opened();
    return BINADE_OK;
}
