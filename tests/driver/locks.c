/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tests/driver/locks.h"

#include <stdlib.h>

#include "pool/base/clock.h"
#include "pool/base/lock.h"
#include "pool/base/table.h"
#include "pool/driver/driver_table.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const struct moietyi_driver *driver;
static void *volatile kept; /* so that the allocation is one */

int locks_open(void)
{
    return (int)moietyi_driver_open(&driver);
}

void locks_do_without(enum locks_deed deed)
{
    int count;
    void *table;
    switch (deed) {
    case LOCKS_CALL:
        (void)driver->cuDeviceGetCount(&count);
        break;
    case LOCKS_NAP:
        moietyi_nap(1);
        break;
    case LOCKS_RESERVE:
        table = moietyi_table_reserve(4096);
        if (table)
            moietyi_table_release(table, 4096);
        break;
    case LOCKS_ALLOCATE:
        table = malloc(64);
        kept = table;
        free(table);
        break;
    case LOCKS_NOTHING:
        break;
    }
}

void locks_do_with(enum locks_deed deed)
{
    moietyi_lock(&lock);
    locks_do_without(deed);
    moietyi_unlock(&lock);
}
