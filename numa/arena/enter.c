/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Calls that use an arena's parts: whether it is there, and that it stays.
 */
#include "numa/arena/arena.h"
#include "pool/base/failure.h"

moiety_status moietyi_host_check(const struct moiety_host *host,
                                 const char *function)
{
    if (host && host->pinned)
        return MOIETY_OK;
    return host ? moietyi_fail(MOIETY_E_DESTROYED,
                               "%s: the arena was destroyed", function)
                : moietyi_fail(MOIETY_E_INVALID, "%s: host is NULL", function);
}

moiety_status moietyi_host_enter(struct moiety_host *host, const char *function)
{
    pthread_mutex_lock(&host->lock);
    bool is_ending = host->is_ending;
    host->reserve_count += !is_ending;
    pthread_mutex_unlock(&host->lock);
    return is_ending ? moietyi_fail(MOIETY_E_DESTROYED,
                                    "%s: a call that destroys the arena is "
                                    "under way",
                                    function)
                     : MOIETY_OK;
}

void moietyi_host_leave(struct moiety_host *host)
{
    pthread_mutex_lock(&host->lock);
    host->reserve_count--;
    pthread_mutex_unlock(&host->lock);
}
