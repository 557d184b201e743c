/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "pool/tenant/directory.h"

#include <pthread.h>
#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

#include "pool/base/failure.h"
#include "pool/base/handles.h"
#include "pool/base/lock.h"

/* Of a handle: the tag is below, the generation above. */
#define TAG_BITS 16U

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* Edge TE: add_place (release) -> place_at (acquire). Each is set once. */
static _Atomic(struct moietyi_tenant *) places[MOIETY_TENANTS_MAX];
/* The lock. */
static uint32_t place_count;
static struct moietyi_tenant *free_places;

static struct moietyi_tenant *place_at(uint32_t index)
{
    /* TE.acquire: that the place is there. */
    return index < MOIETY_TENANTS_MAX
               ? atomic_load_explicit(&places[index], memory_order_acquire)
               : NULL;
}

/* Lock held. */
static void directory_add_place(struct moietyi_tenant *fresh)
{
    fresh->tag = (moietyi_tag)(place_count + 1);
    /* TE.release: the place as it was made. */
    atomic_store_explicit(&places[place_count++], fresh, memory_order_release);
}

/* Lock held. Perhaps `*fresh`, which is NULL where there was no memory, and
 * afterwards. NULL, and why. */
static struct moietyi_tenant *take_place(struct moietyi_tenant **fresh,
                                         moiety_status *out_status)
{
    struct moietyi_tenant *tenant = free_places;
    *out_status = MOIETY_OK;
    if (tenant) {
        free_places = tenant->next_free;
    } else if (place_count == MOIETY_TENANTS_MAX) {
        *out_status =
            moietyi_fail(MOIETY_E_NO_ROOM, "a process has %u tenants at most",
                         MOIETY_TENANTS_MAX);
    } else if (!*fresh) {
        *out_status =
            moietyi_fail(MOIETY_E_NO_HOST_MEMORY, "no memory for a tenant");
    } else {
        tenant = *fresh;
        *fresh = NULL;
        directory_add_place(tenant);
    }
    return tenant;
}

/* Lock held. */
static void give_place(struct moietyi_tenant *tenant)
{
    /* TE, relaxed: a caller that still finds the place is late, which is its
     * own error. */
    atomic_store_explicit(&tenant->handle, NULL, memory_order_relaxed);
    tenant->next_free = free_places;
    free_places = tenant;
}

moiety_status moietyi_tenant_enter(moiety_pool *pool, const char *name,
                                   uint64_t budget_bytes, moiety_private arena,
                                   moiety_tenant *out)
{
    moiety_status status;
    struct moietyi_tenant *fresh =
        aligned_alloc(alignof(struct moietyi_tenant), sizeof(*fresh));
    if (fresh)
        memset(fresh, 0, sizeof(*fresh));
    moietyi_lock(&lock);
    struct moietyi_tenant *tenant = take_place(&fresh, &status);
    if (tenant) {
        tenant->pool = pool;
        tenant->arena = arena;
        memset(tenant->name, 0, sizeof(tenant->name));
        memcpy(tenant->name, name, strlen(name));
        moietyi_account_init(&tenant->account, budget_bytes);
        /* relaxed, as the lock is held: see the field. */
        uint64_t generation = atomic_fetch_add_explicit(&tenant->generation, 1,
                                                        memory_order_relaxed) +
                              1;
        *out = moietyi_tenant_of_number(generation << TAG_BITS | tenant->tag);
        /* TE.release: all of the above. */
        atomic_store_explicit(&tenant->handle, *out, memory_order_release);
    }
    moietyi_unlock(&lock);
    free(fresh);
    return status;
}

static struct moietyi_tenant *directory_place_of(moiety_tenant handle)
{
    uint64_t number = moietyi_number_of_tenant(handle);
    return place_at((uint32_t)(number & ((1U << TAG_BITS) - 1)) - 1);
}

struct moietyi_tenant *moietyi_tenant_find(moiety_tenant handle)
{
    struct moietyi_tenant *tenant = directory_place_of(handle);
    /* TE.acquire: the tenant as it was entered. */
    return tenant && atomic_load_explicit(&tenant->handle,
                                          memory_order_acquire) == handle
               ? tenant
               : NULL;
}

struct moietyi_tenant *moietyi_tenant_of_tag(moietyi_tag tag)
{
    return place_at((uint32_t)(tag & ~MOIETYI_TAG_FURTHER) - 1);
}

moiety_status moietyi_tenant_refuse(moiety_tenant handle)
{
    struct moietyi_tenant *tenant = directory_place_of(handle);
    /* relaxed: see the field. */
    uint64_t generation =
        tenant ? atomic_load_explicit(&tenant->generation, memory_order_relaxed)
               : 0;
    uint64_t named = moietyi_number_of_tenant(handle) >> TAG_BITS;
    return named && named <= generation
               ? moietyi_fail(MOIETY_E_DESTROYED, "the tenant was destroyed")
               : moietyi_fail(MOIETY_E_INVALID, "there is no such tenant");
}

moiety_status moietyi_tenant_leave(moiety_tenant handle)
{
    moiety_status status = MOIETY_OK;
    moietyi_lock(&lock);
    struct moietyi_tenant *tenant = moietyi_tenant_find(handle);
    if (!tenant) {
        status = moietyi_tenant_refuse(handle);
    } else if (!moietyi_account_try_close(&tenant->account)) {
        status = moietyi_fail(
            MOIETY_E_IN_USE, "tenant '%s' still has %llu bytes", tenant->name,
            (unsigned long long)moietyi_account_live_bytes(&tenant->account));
    } else {
        give_place(tenant);
    }
    moietyi_unlock(&lock);
    return status;
}

void moietyi_tenants_end(const moiety_pool *pool)
{
    moietyi_lock(&lock);
    for (uint32_t i = 0; i < place_count; i++) {
        struct moietyi_tenant *tenant = place_at(i);
        /* relaxed: only changed under the lock. */
        if (tenant->pool == pool &&
            atomic_load_explicit(&tenant->handle, memory_order_relaxed))
            give_place(tenant);
    }
    moietyi_unlock(&lock);
}
