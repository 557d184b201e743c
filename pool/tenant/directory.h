/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * All tenants of the process. A handle names a place and how often the place
 * was given out, so that one of a tenant that is gone is recognised; places are
 * never freed, only used again.
 */
#ifndef BINADE_POOL_TENANT_DIRECTORY_H_
#define BINADE_POOL_TENANT_DIRECTORY_H_

#include "binade/private.h"
#include "binade/status.h"
#include "binade/stream.h"
#include "binade/tenant.h"
#include "pool/tenant/account.h"
#include "pool/tenant/tags.h"

struct binadei_tenant {
    /* Edge TE: enter (release) -> find (acquire). 0: nobody's place. Changed
     * under the directory's lock. */
    _Atomic binade_tenant handle;
    /* Constant while somebody has the place. */
    binade_pool *pool;
    binadei_tag tag;
    char name[BINADE_TENANT_NAME_BYTES];
    /* Where its blocks come from; 0: the pool. */
    binade_private arena;
    /* The directory's lock. */
    uint64_t generation;
    struct binadei_tenant *next_free;
    struct binadei_account account;
};

/* A place for a tenant. BINADE_OK, BINADE_E_TOO_LARGE (there are as many as can
 * be), BINADE_E_NO_HOST_MEMORY. Takes the lock. */
BINADE_MUST_USE binade_status binadei_tenant_enter(binade_pool *pool,
                                                   const char *name,
                                                   uint64_t budget_bytes,
                                                   binade_private arena,
                                                   binade_tenant *out);
/* NULL: there is none of that handle. Wait-free. */
struct binadei_tenant *binadei_tenant_find(binade_tenant handle);
/* That of a tag that a block bears. Wait-free. */
struct binadei_tenant *binadei_tenant_of_tag(binadei_tag tag);
/* Gives its place back. BINADE_OK, BINADE_E_INVALID (none of that handle), or
 * BINADE_E_BUSY (something is charged). Takes the lock. */
BINADE_MUST_USE binade_status binadei_tenant_leave(binade_tenant handle);
/* All of a pool, whatever is charged. Takes the lock. */
void binadei_tenants_end(const binade_pool *pool);

#endif
