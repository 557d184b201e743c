/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The table of the open driver, below all who read it: the statuses ask it for
 * names of errors, and whoever opens a driver makes statuses.
 */
#include <stdatomic.h>
#include <stddef.h>

#include "pool/driver/driver_table.h"

/* Edge DO: moietyi_driver_publish (release) -> moietyi_driver_opened (acquire).
 * NULL until a driver is open, written once, never freed. */
static _Atomic(const struct moietyi_driver *) opened;

const struct moietyi_driver *moietyi_driver_opened(void)
{
    /* DO.acquire: the table behind it must be seen as its maker left it. */
    return atomic_load_explicit(&opened, memory_order_acquire);
}

bool moietyi_driver_publish(const struct moietyi_driver *driver)
{
    const struct moietyi_driver *nobody = NULL;
    /* DO.release: publishes the table. On failure the other one is only read
     * later, through moietyi_driver_opened(), so relaxed is enough. */
    return atomic_compare_exchange_strong_explicit(
        &opened, &nobody, driver, memory_order_release, memory_order_relaxed);
}
