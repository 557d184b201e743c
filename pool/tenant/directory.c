/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "pool/tenant/directory.h"

#include <pthread.h>
#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

#include "pool/base/failure.h"

/* Of a handle: the tag is below, the generation above. */
#define TAG_BITS 16U

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* Edge TE: add_place (release) -> place_at (acquire). Each is set once. */
static _Atomic(struct binadei_tenant *) places[BINADE_TENANTS_MAX];
/* The lock. */
static uint32_t place_count;
static struct binadei_tenant *free_places;

static struct binadei_tenant *place_at(uint32_t index)
{
    /* TE.acquire: that the place is there. */
    return index < BINADE_TENANTS_MAX
               ? atomic_load_explicit(&places[index], memory_order_acquire)
               : NULL;
}

/* Lock held. NULL: no memory. */
static struct binadei_tenant *directory_add_place(void)
{
    struct binadei_tenant *tenant =
        aligned_alloc(alignof(struct binadei_tenant), sizeof(*tenant));
    if (!tenant)
        return NULL;
    memset(tenant, 0, sizeof(*tenant));
    tenant->tag = (binadei_tag)(place_count + 1);
    /* TE.release: the place as it was made. */
    atomic_store_explicit(&places[place_count++], tenant, memory_order_release);
    return tenant;
}

/* Lock held. NULL, and why. */
static struct binadei_tenant *take_place(binade_status *out_status)
{
    struct binadei_tenant *tenant = free_places;
    *out_status = BINADE_OK;
    if (tenant) {
        free_places = tenant->next_free;
    } else if (place_count == BINADE_TENANTS_MAX) {
        *out_status =
            binadei_fail(BINADE_E_TOO_LARGE, "a process has %u tenants at most",
                         BINADE_TENANTS_MAX);
    } else {
        tenant = directory_add_place();
        if (!tenant)
            *out_status =
                binadei_fail(BINADE_E_NO_HOST_MEMORY, "no memory for a tenant");
    }
    return tenant;
}

/* Lock held. */
static void give_place(struct binadei_tenant *tenant)
{
    /* TE, relaxed: who still finds the place is late, which is its own error. */
    atomic_store_explicit(&tenant->handle, 0, memory_order_relaxed);
    tenant->next_free = free_places;
    free_places = tenant;
}

binade_status binadei_tenant_enter(binade_pool *pool, const char *name,
                                   uint64_t budget_bytes, binade_private arena,
                                   binade_tenant *out)
{
    binade_status status;
    pthread_mutex_lock(&lock);
    struct binadei_tenant *tenant = take_place(&status);
    if (tenant) {
        tenant->pool = pool;
        tenant->arena = arena;
        memset(tenant->name, 0, sizeof(tenant->name));
        memcpy(tenant->name, name, strlen(name));
        binadei_account_init(&tenant->account, budget_bytes);
        *out = ++tenant->generation << TAG_BITS | tenant->tag;
        /* TE.release: all of the above. */
        atomic_store_explicit(&tenant->handle, *out, memory_order_release);
    }
    pthread_mutex_unlock(&lock);
    return status;
}

struct binadei_tenant *binadei_tenant_find(binade_tenant handle)
{
    struct binadei_tenant *tenant =
        place_at((uint32_t)(handle & ((1U << TAG_BITS) - 1)) - 1);
    /* TE.acquire: the tenant as it was entered. */
    return tenant && atomic_load_explicit(&tenant->handle,
                                          memory_order_acquire) == handle
               ? tenant
               : NULL;
}

struct binadei_tenant *binadei_tenant_of_tag(binadei_tag tag)
{
    return place_at((uint32_t)(tag & ~BINADEI_TAG_FURTHER) - 1);
}

binade_status binadei_tenant_leave(binade_tenant handle)
{
    binade_status status = BINADE_OK;
    pthread_mutex_lock(&lock);
    struct binadei_tenant *tenant = binadei_tenant_find(handle);
    if (!tenant) {
        status = binadei_fail(BINADE_E_INVALID, "there is no such tenant");
    } else if (!binadei_account_try_close(&tenant->account)) {
        status = binadei_fail(
            BINADE_E_BUSY, "tenant '%s' still has %llu bytes", tenant->name,
            (unsigned long long)binadei_account_live_bytes(&tenant->account));
    } else {
        give_place(tenant);
    }
    pthread_mutex_unlock(&lock);
    return status;
}

void binadei_tenants_end(const binade_pool *pool)
{
    pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < place_count; i++) {
        struct binadei_tenant *tenant = place_at(i);
        /* relaxed: only changed under the lock. */
        if (tenant->pool == pool &&
            atomic_load_explicit(&tenant->handle, memory_order_relaxed))
            give_place(tenant);
    }
    pthread_mutex_unlock(&lock);
}
