/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * All tenants of the process. A handle names a place and how often the place
 * was given out, so that one of a tenant that is gone is recognised; places are
 * never freed, only used again.
 */
#ifndef MOIETY_POOL_TENANT_DIRECTORY_H_
#define MOIETY_POOL_TENANT_DIRECTORY_H_

#include "moiety/private.h"
#include "moiety/status.h"
#include "moiety/stream.h"
#include "moiety/tenant.h"
#include "pool/tenant/account.h"
#include "pool/tenant/tags.h"

struct moietyi_tenant {
    /* Edge TE: enter (release) -> find (acquire). NULL: nobody's place. Changed
     * under the directory's lock. */
    _Atomic(moiety_tenant) handle;
    /* Constant while somebody has the place. */
    moiety_pool *pool;
    moietyi_tag tag;
    char name[MOIETY_TENANT_NAME_BYTES];
    /* Where its blocks come from; NULL: the pool. */
    moiety_private arena;
    /* Edge: none; relaxed: written under the directory's lock, and otherwise only
     * compared. */
    _Atomic uint64_t generation;
    /* The directory's lock. */
    struct moietyi_tenant *next_free;
    struct moietyi_account account;
};

/* A place for a tenant. MOIETY_OK, MOIETY_E_NO_ROOM (there are as many as can
 * be), MOIETY_E_NO_HOST_MEMORY. Takes the lock. */
MOIETY_MUST_USE moiety_status moietyi_tenant_enter(moiety_pool *pool,
                                                   const char *name,
                                                   uint64_t budget_bytes,
                                                   moiety_private arena,
                                                   moiety_tenant *out);
/* NULL: there is none of that handle. Wait-free. */
struct moietyi_tenant *moietyi_tenant_find(moiety_tenant handle);
/* That of a tag that a block bears. Wait-free. */
struct moietyi_tenant *moietyi_tenant_of_tag(moietyi_tag tag);
/* Why there is none of that handle: MOIETY_E_DESTROYED, or MOIETY_E_INVALID: there
 * never was. Wait-free. */
moiety_status moietyi_tenant_refuse(moiety_tenant handle);
/* Gives its place back. MOIETY_OK, MOIETY_E_IN_USE (something is charged), or as
 * moietyi_tenant_refuse(). Takes the lock. */
MOIETY_MUST_USE moiety_status moietyi_tenant_leave(moiety_tenant handle);
/* Ends all of a pool, also with bytes charged. Takes the lock. */
void moietyi_tenants_end(const moiety_pool *pool);

#endif
