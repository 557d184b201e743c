/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The public side of tenants. An allocation is charged first, so that a budget
 * holds at every moment, and then is one like any other; what makes it a
 * tenant's is the tag, which the way back looks at: pool/cache/put.c.
 */
#include "binade/tenant.h"

#include <string.h>

#include "pool/api/alloc.h"
#include "pool/base/failure.h"
#include "pool/base/fork_mark.h"
#include "pool/cache/hit.h"
#include "pool/config/options.h"
#include "pool/core/body.h"
#include "pool/core/ops.h"
#include "pool/tenant/directory.h"

static binade_status no_tenant(void)
{
    if (binadei_is_forked())
        return binadei_refuse_child();
    return binadei_fail(BINADE_E_INVALID, "there is no such tenant");
}

static binade_status check_budget(uint64_t budget_bytes)
{
    return budget_bytes < BINADEI_BUDGET_NONE
               ? BINADE_OK
               : binadei_fail(BINADE_E_INVALID,
                              "a budget of %llu bytes; accepted are 0 and less "
                              "than 2^62",
                              (unsigned long long)budget_bytes);
}

static binade_status check_new(const char *name, uint64_t budget_bytes,
                               const binade_tenant *out)
{
    if (!out)
        return binadei_fail(BINADE_E_INVALID,
                            "binade_tenant_create: out is NULL");
    if (strlen(name) >= BINADE_TENANT_NAME_BYTES)
        return binadei_fail(BINADE_E_INVALID,
                            "a tenant's name has %u bytes at most",
                            BINADE_TENANT_NAME_BYTES - 1);
    return check_budget(budget_bytes);
}

/* As the account has it. */
static uint64_t or_none(uint64_t budget_bytes)
{
    return budget_bytes ? budget_bytes : BINADEI_BUDGET_NONE;
}

/* A pool that is checked or passes all through knows its blocks one by one. */
static binade_status make_tags(const struct binadei_call *call)
{
    if (call->pool->body->ops->has_records)
        return BINADE_OK;
    return binadei_engine_make_tags(call->engine,
                                    call->pool->body->page_capacity);
}

static binade_status enter(binade_pool *pool, const char *name,
                           uint64_t budget_bytes, binade_private arena,
                           binade_tenant *out)
{
    struct binadei_call call;
    binade_status status = binadei_call_begin(pool, BINADE_STREAM_DONE, &call);
    if (status != BINADE_OK)
        return status;
    status = make_tags(&call);
    if (status == BINADE_OK)
        status =
            binadei_tenant_enter(pool, name, or_none(budget_bytes), arena, out);
    binadei_call_leave(&call);
    return status;
}

#define KNOWN_FLAGS BINADE_TENANT_PAUSABLE

static binade_status make_arena(binade_pool *pool, uint32_t flags,
                                binade_private *out)
{
    const binade_private_options options = {.struct_size = sizeof(options),
                                            .flags = BINADE_PRIVATE_PAUSABLE};
    *out = 0;
    return flags & BINADE_TENANT_PAUSABLE
               ? binade_private_create_with(pool, &options, out)
               : BINADE_OK;
}

binade_status binade_tenant_create_with(binade_pool *pool,
                                        const binade_tenant_options *options,
                                        binade_tenant *out)
{
    binade_private arena = 0;
    if (!options || options->struct_size < sizeof(*options) ||
        options->flags & ~KNOWN_FLAGS) {
        return binadei_fail(BINADE_E_INVALID,
                            "binade_tenant_create_with: options are NULL, "
                            "smaller than %zu bytes, or have unknown flags",
                            sizeof(*options));
    }
    const char *name = options->name ? options->name : "";
    binade_status status = check_new(name, options->budget_bytes, out);
    if (status == BINADE_OK)
        status = make_arena(pool, options->flags, &arena);
    if (status != BINADE_OK)
        return status;
    status = enter(pool, name, options->budget_bytes, arena, out);
    if (status != BINADE_OK && arena)
        (void)!binade_private_release(arena);
    return status;
}

binade_status binade_tenant_create(binade_pool *pool, const char *name,
                                   uint64_t budget_bytes, binade_tenant *out)
{
    const binade_tenant_options options = {.struct_size = sizeof(options),
                                           .name = name,
                                           .budget_bytes = budget_bytes};
    return binade_tenant_create_with(pool, &options, out);
}

binade_status binade_tenant_destroy(binade_tenant tenant)
{
    if (binadei_is_forked())
        return binadei_refuse_child();
    if (!tenant)
        return BINADE_OK;
    const struct binadei_tenant *found = binadei_tenant_find(tenant);
    binade_private arena = found ? found->arena : 0;
    binade_status status = binadei_tenant_leave(tenant);
    return status == BINADE_OK && arena ? binade_private_release(arena)
                                        : status;
}

/* The arena of a tenant; 0, and why there is none. */
static binade_status find_arena(binade_tenant tenant, binade_private *out)
{
    const struct binadei_tenant *found = binadei_tenant_find(tenant);
    if (binadei_is_forked())
        return binadei_refuse_child();
    if (!found)
        return no_tenant();
    *out = found->arena;
    return found->arena ? BINADE_OK
                        : binadei_fail(BINADE_E_UNSUPPORTED,
                                       "the tenant was not made to be paused");
}

binade_status binade_tenant_private(binade_tenant tenant, binade_private *out)
{
    binade_private arena = 0;
    if (!out)
        return binadei_fail(BINADE_E_INVALID,
                            "binade_tenant_private: out is NULL");
    binade_status status = find_arena(tenant, &arena);
    if (status == BINADE_OK)
        *out = arena;
    return status;
}

binade_status binade_tenant_pause(binade_tenant tenant, uint32_t flags)
{
    binade_private arena = 0;
    binade_status status = find_arena(tenant, &arena);
    return status == BINADE_OK ? binade_private_pause(arena, flags) : status;
}

binade_status binade_tenant_resume(binade_tenant tenant)
{
    binade_private arena = 0;
    binade_status status = find_arena(tenant, &arena);
    return status == BINADE_OK ? binade_private_resume(arena) : status;
}

static binade_status tenant_refuse(struct binadei_tenant *tenant,
                                   size_t size_bytes)
{
    struct binadei_account *account = &tenant->account;
    if (binadei_is_forked())
        return binadei_refuse_child();
    return binadei_fail(
        BINADE_E_BUDGET, "%zu bytes: tenant '%s' has %llu of a budget of %llu",
        size_bytes, tenant->name,
        (unsigned long long)binadei_account_live_bytes(account),
        (unsigned long long)binadei_account_budget_bytes(account));
}

/* Blocks of an arena lie at multiples of 512. */
static binade_status take_of_arena(const struct binadei_tenant *tenant,
                                   const struct binadei_alloc_args *args,
                                   binade_stream stream, binade_devptr *out)
{
    if (args->alignment_bytes > BINADEI_GRAIN_BYTES || !args->may_wait)
        return binadei_fail(BINADE_E_UNSUPPORTED,
                            "a tenant that can be paused has no blocks with an "
                            "alignment above 512, and none without waiting");
    /* What it holds is what was charged: the free discharges that. */
    return binade_private_alloc(
        tenant->arena, binadei_tenant_bytes(args->size_bytes), stream, out);
}

/* From the thread's cache, if a size alone is wished for, or as others. */
static binade_status tenant_take(binade_pool *pool,
                                 const struct binadei_alloc_args *args,
                                 binade_stream stream, binade_devptr *out)
{
    struct binadei_thread *thread = binadei_thread_self;
    binade_devptr address = 0;
    if (args->alignment_bytes == 1 && binadei_hit_begin(thread)) {
        const struct binadei_route *route =
            binadei_hit_find(thread, pool, stream);
        if (route)
            address = binadei_hit_alloc_full(route, args->size_bytes);
        binadei_thread_leave(thread);
    }
    if (!address)
        return binadei_alloc(pool, args, stream, out);
    *out = address;
    return BINADE_OK;
}

/* The caller holds the block. */
static void put_tag(const struct binadei_tenant *tenant, binade_devptr address)
{
    struct binadei_engine *engine = tenant->pool->engine;
    binadei_grain start;
    if (tenant->pool->body->ops->has_records ||
        !binadei_grain_of(engine->lookup, address, &start))
        return;
    uint8_t byte = binadei_buddy_class(engine->streams.buddy, start);
    /* Of a block in a capture scope more is noted already. */
    binadei_tag tag = byte & BINADEI_BYTE_SPECIAL
                          ? tenant->tag | BINADEI_TAG_FURTHER
                          : tenant->tag;
    binadei_tag_set(binadei_tags(engine), start, tag);
    binadei_buddy_set_class(engine->streams.buddy, start,
                            byte | BINADEI_BYTE_SPECIAL);
}

static binade_status charge_and_take(struct binadei_tenant *tenant,
                                     const struct binadei_alloc_args *args,
                                     binade_stream stream, binade_devptr *out)
{
    uint64_t bytes = binadei_tenant_bytes(args->size_bytes);
    uint32_t number = binadei_thread_self->number;
    struct binadei_alloc_args charged = *args;
    if (!binadei_account_charge(&tenant->account, number, bytes))
        return tenant_refuse(tenant, args->size_bytes);
    charged.tenant = tenant;
    binade_status status =
        tenant->arena ? take_of_arena(tenant, &charged, stream, out)
                      : tenant_take(tenant->pool, &charged, stream, out);
    if (status != BINADE_OK) {
        binadei_account_release(&tenant->account, number, bytes);
        return status;
    }
    put_tag(tenant, *out);
    binadei_account_count(&tenant->account, number);
    return BINADE_OK;
}

static binade_status alloc_for(binade_tenant handle,
                               const struct binadei_alloc_args *args,
                               binade_stream stream, binade_devptr *out)
{
    struct binadei_tenant *tenant = binadei_tenant_find(handle);
    if (!tenant)
        return no_tenant();
    /* What is not to be had at all, and nothing, is the pool's to answer. */
    if (!out || !args->size_bytes ||
        args->size_bytes > BINADEI_CAPACITY_BYTES || !args->alignment_bytes)
        return binadei_alloc(tenant->pool, args, stream, out);
    return charge_and_take(tenant, args, stream, out);
}

binade_status binade_tenant_alloc(binade_tenant tenant, size_t size_bytes,
                                  binade_stream stream, binade_devptr *out)
{
    const struct binadei_alloc_args args = {.size_bytes = size_bytes,
                                            .alignment_bytes = 1,
                                            .may_wait = true,
                                            .is_exact = true};
    return alloc_for(tenant, &args, stream, out);
}

binade_status binade_tenant_alloc_aligned(binade_tenant tenant,
                                          size_t size_bytes,
                                          size_t alignment_bytes,
                                          binade_stream stream,
                                          binade_devptr *out)
{
    const struct binadei_alloc_args args = {.size_bytes = size_bytes,
                                            .alignment_bytes = alignment_bytes,
                                            .may_wait = true,
                                            .is_exact = true};
    return alloc_for(tenant, &args, stream, out);
}

binade_status binade_tenant_try_alloc(binade_tenant tenant, size_t size_bytes,
                                      binade_stream stream, binade_devptr *out)
{
    const struct binadei_alloc_args args = {
        .size_bytes = size_bytes, .alignment_bytes = 1, .is_exact = true};
    return alloc_for(tenant, &args, stream, out);
}

binade_status binade_tenant_set_budget(binade_tenant tenant,
                                       uint64_t budget_bytes)
{
    struct binadei_tenant *found = binadei_tenant_find(tenant);
    if (binadei_is_forked())
        return binadei_refuse_child();
    if (!found)
        return no_tenant();
    binade_status status = check_budget(budget_bytes);
    if (status == BINADE_OK)
        binadei_account_set_budget(&found->account, or_none(budget_bytes));
    return status;
}

static binade_tenant_info tenant_info_of(struct binadei_tenant *tenant)
{
    uint64_t budget_bytes = binadei_account_budget_bytes(&tenant->account);
    binade_tenant_info info = {
        .struct_size = (uint32_t)sizeof(info),
        .budget_bytes = budget_bytes == BINADEI_BUDGET_NONE ? 0 : budget_bytes,
    };
    memcpy(info.name, tenant->name, sizeof(info.name));
    binadei_account_sum(&tenant->account, &info);
    return info;
}

binade_status binade_tenant_stats(binade_tenant tenant, binade_tenant_info *out)
{
    struct binadei_tenant *found = binadei_tenant_find(tenant);
    if (binadei_is_forked())
        return binadei_refuse_child();
    if (!found)
        return no_tenant();
    if (!out || out->struct_size < sizeof(*out)) {
        return binadei_fail(BINADE_E_INVALID,
                            "binade_tenant_stats: out is NULL or its "
                            "struct_size below %zu",
                            sizeof(*out));
    }
    *out = tenant_info_of(found);
    return BINADE_OK;
}
