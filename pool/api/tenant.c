/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The public side of tenants. An allocation is charged first, so that a budget
 * holds at every moment, and then is one like any other; what makes it a
 * tenant's is the tag, which the way back looks at: pool/cache/put.c.
 */
#include "moiety/tenant.h"

#include <string.h>

#include "pool/api/alloc.h"
#include "pool/base/failure.h"
#include "pool/base/fork_mark.h"
#include "pool/cache/hit.h"
#include "pool/config/options.h"
#include "pool/core/body.h"
#include "pool/core/ops.h"
#include "pool/graph/privates.h"
#include "pool/tenant/directory.h"

static moiety_status no_tenant(moiety_tenant handle)
{
    return moietyi_is_forked() ? moietyi_refuse_child()
                               : moietyi_tenant_refuse(handle);
}

static moiety_status check_budget(uint64_t budget_bytes)
{
    return budget_bytes < MOIETYI_BUDGET_NONE
               ? MOIETY_OK
               : moietyi_fail(MOIETY_E_INVALID,
                              "a budget of %llu bytes; accepted are 0 and less "
                              "than 2^62",
                              (unsigned long long)budget_bytes);
}

static moiety_status check_new(const char *name, uint64_t budget_bytes,
                               const moiety_tenant *out)
{
    if (!out)
        return moietyi_fail(MOIETY_E_INVALID,
                            "moiety_tenant_create: out is NULL");
    if (strlen(name) >= MOIETY_TENANT_NAME_BYTES)
        return moietyi_fail(MOIETY_E_INVALID,
                            "a tenant's name has %u bytes at most",
                            MOIETY_TENANT_NAME_BYTES - 1);
    return check_budget(budget_bytes);
}

/* As the account has it. */
static uint64_t or_none(uint64_t budget_bytes)
{
    return budget_bytes ? budget_bytes : MOIETYI_BUDGET_NONE;
}

/* A pool that is checked or passes all through knows its blocks one by one. */
static moiety_status make_tags(const struct moietyi_call *call)
{
    if (call->pool->body->ops->has_records)
        return MOIETY_OK;
    return moietyi_engine_make_tags(call->engine,
                                    call->pool->body->page_capacity);
}

static moiety_status enter(moiety_pool *pool, const char *name,
                           uint64_t budget_bytes, moiety_private arena,
                           moiety_tenant *out)
{
    struct moietyi_call call;
    moiety_status status = moietyi_call_begin(pool, MOIETY_STREAM_DONE, &call);
    if (status != MOIETY_OK)
        return status;
    status = make_tags(&call);
    if (status == MOIETY_OK)
        status =
            moietyi_tenant_enter(pool, name, or_none(budget_bytes), arena, out);
    moietyi_call_leave(&call);
    return status;
}

#define KNOWN_FLAGS MOIETY_TENANT_PAUSABLE

static moiety_status make_arena(moiety_pool *pool, uint32_t flags,
                                moiety_private *out)
{
    const moiety_private_options options = {.struct_size = sizeof(options),
                                            .flags = MOIETY_PRIVATE_PAUSABLE};
    *out = NULL;
    return flags & MOIETY_TENANT_PAUSABLE
               ? moiety_private_create(pool, &options, out)
               : MOIETY_OK;
}

moiety_status moiety_tenant_create(moiety_pool *pool,
                                   const moiety_tenant_options *options,
                                   moiety_tenant *out)
{
    static const moiety_tenant_options defaults = MOIETY_TENANT_OPTIONS_INIT;
    moiety_private arena = NULL;
    if (!options)
        options = &defaults;
    if (options->struct_size < sizeof(*options) ||
        options->flags & ~KNOWN_FLAGS) {
        return moietyi_fail(MOIETY_E_INVALID,
                            "moiety_tenant_create: options are smaller than "
                            "%zu bytes, or have unknown flags",
                            sizeof(*options));
    }
    const char *name = options->name ? options->name : "";
    moiety_status status = check_new(name, options->budget_bytes, out);
    if (status == MOIETY_OK)
        status = make_arena(pool, options->flags, &arena);
    if (status != MOIETY_OK)
        return status;
    status = enter(pool, name, options->budget_bytes, arena, out);
    if (status != MOIETY_OK && arena)
        (void)!moiety_private_destroy(arena);
    return status;
}

moiety_status moiety_tenant_destroy(moiety_tenant tenant)
{
    if (moietyi_is_forked())
        return moietyi_refuse_child();
    if (!tenant)
        return MOIETY_OK;
    const struct moietyi_tenant *found = moietyi_tenant_find(tenant);
    moiety_private arena = found ? found->arena : NULL;
    moiety_status status = moietyi_tenant_leave(tenant);
    return status == MOIETY_OK && arena ? moiety_private_destroy(arena)
                                        : status;
}

/* The arena of a tenant; NULL, and why there is none. */
static moiety_status find_arena(moiety_tenant tenant, moiety_private *out)
{
    const struct moietyi_tenant *found = moietyi_tenant_find(tenant);
    if (moietyi_is_forked())
        return moietyi_refuse_child();
    if (!found)
        return no_tenant(tenant);
    *out = found->arena;
    return found->arena ? MOIETY_OK
                        : moietyi_fail(MOIETY_E_UNSUPPORTED,
                                       "the tenant was not made to be paused");
}

moiety_status moiety_tenant_private(moiety_tenant tenant, moiety_private *out)
{
    moiety_private arena = NULL;
    if (!out)
        return moietyi_fail(MOIETY_E_INVALID,
                            "moiety_tenant_private: out is NULL");
    moiety_status status = find_arena(tenant, &arena);
    if (status == MOIETY_OK)
        *out = arena;
    return status;
}

moiety_status moiety_tenant_pause(moiety_tenant tenant, uint32_t flags)
{
    moiety_private arena = NULL;
    moiety_status status = find_arena(tenant, &arena);
    return status == MOIETY_OK ? moiety_private_pause(arena, flags) : status;
}

moiety_status moiety_tenant_resume(moiety_tenant tenant)
{
    moiety_private arena = NULL;
    moiety_status status = find_arena(tenant, &arena);
    return status == MOIETY_OK ? moiety_private_resume(arena) : status;
}

static moiety_status tenant_refuse(struct moietyi_tenant *tenant,
                                   size_t size_bytes)
{
    struct moietyi_account *account = &tenant->account;
    if (moietyi_is_forked())
        return moietyi_refuse_child();
    return moietyi_fail(
        MOIETY_E_BUDGET, "%zu bytes: tenant '%s' has %llu of a budget of %llu",
        size_bytes, tenant->name,
        (unsigned long long)moietyi_account_live_bytes(account),
        (unsigned long long)moietyi_account_budget_bytes(account));
}

/* Blocks of an arena lie at multiples of 512. */
static moiety_status take_of_arena(const struct moietyi_tenant *tenant,
                                   const struct moietyi_alloc_args *args,
                                   moiety_stream stream, moiety_devptr *out)
{
    struct moietyi_alloc_args whole = *args;
    if (args->alignment_bytes > MOIETYI_GRAIN_BYTES) {
        return moietyi_fail(MOIETY_E_UNSUPPORTED,
                            "option alignment_bytes is %zu; accepted is 512 at "
                            "most for a tenant that can be paused",
                            args->alignment_bytes);
    }
    /* What it holds is what was charged: the free discharges that. */
    whole.size_bytes = moietyi_tenant_bytes(args->size_bytes);
    return moietyi_private_alloc(NULL, tenant->arena, &whole, stream, out);
}

/* From the thread's cache, if a size alone is wished for, or as others. */
static moiety_status tenant_take(moiety_pool *pool,
                                 const struct moietyi_alloc_args *args,
                                 moiety_stream stream, moiety_devptr *out)
{
    struct moietyi_thread *thread = moietyi_thread_self;
    moiety_devptr address = 0;
    if (args->alignment_bytes == 1 && moietyi_hit_begin(thread)) {
        const struct moietyi_route *route =
            moietyi_hit_find(thread, pool, stream);
        if (route)
            address = moietyi_hit_alloc_full(route, args->size_bytes);
        moietyi_thread_leave(thread);
    }
    if (!address)
        return moietyi_alloc(pool, args, stream, out);
    *out = address;
    return MOIETY_OK;
}

/* The caller holds the block. */
static void put_tag(const struct moietyi_tenant *tenant, moiety_devptr address)
{
    struct moietyi_engine *engine = tenant->pool->engine;
    moietyi_grain start;
    if (tenant->pool->body->ops->has_records ||
        !moietyi_grain_of(engine->lookup, address, &start))
        return;
    uint8_t byte = moietyi_space_class(engine->streams.space, start);
    /* Of a block in a capture scope more is noted already. */
    moietyi_tag tag = byte & MOIETYI_BYTE_SPECIAL
                          ? tenant->tag | MOIETYI_TAG_FURTHER
                          : tenant->tag;
    moietyi_tag_set(moietyi_tags(engine), start, tag);
    moietyi_space_set_class(engine->streams.space, start,
                            byte | MOIETYI_BYTE_SPECIAL);
}

static moiety_status charge_and_take(struct moietyi_tenant *tenant,
                                     const struct moietyi_alloc_args *args,
                                     moiety_stream stream, moiety_devptr *out)
{
    uint64_t bytes = moietyi_tenant_bytes(args->size_bytes);
    uint32_t number = moietyi_thread_self->number;
    struct moietyi_alloc_args charged = *args;
    if (!moietyi_account_charge(&tenant->account, number, bytes))
        return tenant_refuse(tenant, args->size_bytes);
    charged.tenant = tenant;
    moiety_status status =
        tenant->arena ? take_of_arena(tenant, &charged, stream, out)
                      : tenant_take(tenant->pool, &charged, stream, out);
    if (status != MOIETY_OK) {
        moietyi_account_release(&tenant->account, number, bytes);
        return status;
    }
    put_tag(tenant, *out);
    moietyi_account_count(&tenant->account, number);
    return MOIETY_OK;
}

moiety_status moietyi_tenant_alloc(moiety_pool *pool, moiety_tenant handle,
                                   const struct moietyi_alloc_args *args,
                                   moiety_stream stream, moiety_devptr *out)
{
    struct moietyi_tenant *tenant = moietyi_tenant_find(handle);
    if (!tenant)
        return no_tenant(handle);
    if (pool && pool != tenant->pool)
        return moietyi_fail(MOIETY_E_INVALID,
                            "option tenant is one of another pool");
    /* What is not to be had at all, and nothing, is the pool's to answer. */
    if (!args->size_bytes || args->size_bytes > MOIETYI_CAPACITY_BYTES)
        return moietyi_alloc(tenant->pool, args, stream, out);
    return charge_and_take(tenant, args, stream, out);
}

moiety_status moiety_tenant_set_budget(moiety_tenant tenant,
                                       uint64_t budget_bytes)
{
    struct moietyi_tenant *found = moietyi_tenant_find(tenant);
    if (moietyi_is_forked())
        return moietyi_refuse_child();
    if (!found)
        return no_tenant(tenant);
    moiety_status status = check_budget(budget_bytes);
    if (status == MOIETY_OK)
        moietyi_account_set_budget(&found->account, or_none(budget_bytes));
    return status;
}

static moiety_tenant_stats tenant_info_of(struct moietyi_tenant *tenant)
{
    uint64_t budget_bytes = moietyi_account_budget_bytes(&tenant->account);
    moiety_tenant_stats info = {
        .struct_size = (uint32_t)sizeof(info),
        .budget_bytes = budget_bytes == MOIETYI_BUDGET_NONE ? 0 : budget_bytes,
    };
    memcpy(info.name, tenant->name, sizeof(info.name));
    moietyi_account_sum(&tenant->account, &info);
    return info;
}

moiety_status moiety_tenant_get_stats(moiety_tenant tenant,
                                      moiety_tenant_stats *out)
{
    struct moietyi_tenant *found = moietyi_tenant_find(tenant);
    if (moietyi_is_forked())
        return moietyi_refuse_child();
    if (!found)
        return no_tenant(tenant);
    if (!out || out->struct_size < sizeof(*out)) {
        return moietyi_fail(MOIETY_E_INVALID,
                            "moiety_tenant_get_stats: out is NULL or its "
                            "struct_size below %zu",
                            sizeof(*out));
    }
    *out = tenant_info_of(found);
    return MOIETY_OK;
}
