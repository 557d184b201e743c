/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Options of an allocation: they lead to the pool, a tenant's account or a private
 * arena, and to zeroes ahead of the stream's work.
 */
#include <stddef.h>

#include "moiety/pool.h"
#include "pool/api/alloc.h"
#include "pool/base/failure.h"
#include "pool/base/handles.h"
#include "pool/core/body.h"
#include "pool/driver/section.h"
#include "pool/graph/privates.h"
#include "pool/graph/scopes.h"
#include "pool/tenant/directory.h"

#define KNOWN_FLAGS                                                            \
    (MOIETY_ALLOC_ZEROED | MOIETY_ALLOC_NO_WAIT | MOIETY_ALLOC_NO_CALL)
/* A struct above this is one that nobody filled in. */
#define STRUCT_BYTES_MAX 4096U

/* Checked options. */
struct alloc_way {
    struct moietyi_alloc_args args;
    moiety_tenant tenant;
    moiety_private arena;
    bool is_zeroed;
    bool has_no_call;
};

/* --- reading --- */

static moiety_status read_struct(const moiety_alloc_options *options)
{
    const char *bytes = (const char *)options;
    if (options->struct_size < sizeof(*options) ||
        options->struct_size > STRUCT_BYTES_MAX) {
        return moietyi_fail(MOIETY_E_INVALID,
                            "option struct_size is %u; accepted are %zu to %u",
                            (unsigned)options->struct_size, sizeof(*options),
                            STRUCT_BYTES_MAX);
    }
    for (size_t i = sizeof(*options); i < options->struct_size; i++) {
        if (bytes[i]) {
            return moietyi_fail(MOIETY_E_INVALID,
                                "an option that this library does not know is "
                                "set: byte %zu",
                                i);
        }
    }
    return MOIETY_OK;
}

static moiety_status read_alignment(const moiety_alloc_options *options)
{
    size_t alignment = options->alignment_bytes;
    if (alignment & (alignment - 1) || alignment > MOIETYI_PAGE_BYTES) {
        return moietyi_fail(MOIETY_E_INVALID,
                            "option alignment_bytes is %zu; accepted are 0 and "
                            "powers of two up to 2 MiB",
                            alignment);
    }
    if (options->private_arena && alignment > MOIETYI_GRAIN_BYTES) {
        return moietyi_fail(MOIETY_E_INVALID,
                            "option alignment_bytes is %zu; accepted is 512 at "
                            "most where private_arena is set",
                            alignment);
    }
    return MOIETY_OK;
}

/* One that calls nobody has no other way. */
static const char *beside_no_call(const moiety_alloc_options *options)
{
    if (options->flags & MOIETY_ALLOC_ZEROED)
        return "flags has MOIETY_ALLOC_ZEROED";
    if (options->alignment_bytes > MOIETYI_GRAIN_BYTES)
        return "alignment_bytes is above 512";
    if (options->tenant)
        return "tenant is set";
    return options->private_arena ? "private_arena is set" : NULL;
}

static moiety_status read_together(const moiety_alloc_options *options,
                                   moiety_stream stream)
{
    const char *what =
        options->flags & MOIETY_ALLOC_NO_CALL ? beside_no_call(options) : NULL;
    if (what) {
        return moietyi_fail(MOIETY_E_INVALID,
                            "option %s, which does not go with "
                            "MOIETY_ALLOC_NO_CALL",
                            what);
    }
    if (options->tenant && options->private_arena)
        return moietyi_fail(MOIETY_E_INVALID,
                            "options tenant and private_arena are set; "
                            "accepted is one of them");
    if (options->flags & MOIETY_ALLOC_ZEROED &&
        (stream == MOIETY_STREAM_ANY || stream == MOIETY_STREAM_DONE))
        return moietyi_fail(MOIETY_E_INVALID,
                            "option flags has MOIETY_ALLOC_ZEROED: the zeroes "
                            "need a stream of their own order");
    return MOIETY_OK;
}

static moiety_status alloc_way_read(const moiety_alloc_options *options,
                                    size_t size_bytes, moiety_stream stream,
                                    struct alloc_way *out)
{
    moiety_status status = read_struct(options);
    if (status == MOIETY_OK && options->flags & ~KNOWN_FLAGS) {
        status = moietyi_fail(MOIETY_E_INVALID,
                              "option flags is 0x%x; accepted are the bits of "
                              "0x%x",
                              (unsigned)options->flags, (unsigned)KNOWN_FLAGS);
    }
    if (status == MOIETY_OK)
        status = read_alignment(options);
    if (status == MOIETY_OK)
        status = read_together(options, stream);
    *out = (struct alloc_way){
        .args = {.size_bytes = size_bytes,
                 .alignment_bytes =
                     options->alignment_bytes ? options->alignment_bytes : 1,
                 .may_wait = !(options->flags & MOIETY_ALLOC_NO_WAIT),
                 .is_exact = options->tenant || options->private_arena},
        .tenant = options->tenant,
        .arena = options->private_arena,
        .is_zeroed = (options->flags & MOIETY_ALLOC_ZEROED) != 0,
        .has_no_call = (options->flags & MOIETY_ALLOC_NO_CALL) != 0};
    return status;
}

/* --- zeroes --- */

/* On the stream, in its context. */
static moiety_status zeroed_fill(moiety_pool *pool, moiety_devptr address,
                                 size_t size_bytes, moiety_stream stream)
{
    struct moietyi_call call;
    struct moietyi_section section;
    moiety_status status = moietyi_call_begin(pool, stream, &call);
    if (status != MOIETY_OK)
        return status;
    const struct moietyi_driver *driver = call.pool->body->driver;
    status = moietyi_section_enter(driver, call.push->stream_state->context,
                                   &section);
    if (status == MOIETY_OK) {
        status = MOIETYI_CALL(driver, cuMemsetD8Async,
                              (address, 0, size_bytes, stream));
        (void)moietyi_section_leave(&section);
    }
    moietyi_call_end(&call);
    return status;
}

/* A block that is not zeroed is nobody's. */
static moiety_status zero_or_free(moiety_pool *pool, moiety_devptr address,
                                  size_t size_bytes, moiety_stream stream)
{
    moiety_status status = zeroed_fill(pool, address, size_bytes, stream);
    if (status == MOIETY_OK || moiety_free(pool, address, stream) == MOIETY_OK)
        return status;
    /* Once more, as nobody else could. */
    moiety_status freed = moiety_free(pool, address, stream);
    return freed == MOIETY_OK ? status : freed;
}

/* --- taking --- */

static moiety_status take(moiety_pool *pool, const struct alloc_way *way,
                          moiety_stream stream, moiety_devptr *out)
{
    const struct moietyi_alloc_args *args = &way->args;
    if (way->tenant)
        return moietyi_tenant_alloc(pool, way->tenant, args, stream, out);
    if (way->arena)
        return moietyi_private_alloc(pool, way->arena, args, stream, out);
    /* An ordinary allocation may be a hit. */
    return args->alignment_bytes <= MOIETYI_GRAIN_BYTES && args->may_wait
               ? moiety_alloc(pool, args->size_bytes, stream, out)
               : moietyi_alloc(pool, args, stream, out);
}

/* The pool that the zeroes are for, before a block is taken that they are for. */
static moiety_status find_pool(const struct alloc_way *way, moiety_pool **pool)
{
    if (*pool || !way->is_zeroed)
        return MOIETY_OK;
    if (way->arena)
        return moietyi_scope_pool(moietyi_number_of_private(way->arena),
                                  "private arena", pool);
    const struct moietyi_tenant *tenant = moietyi_tenant_find(way->tenant);
    *pool = tenant ? tenant->pool : NULL;
    return MOIETY_OK;
}

static moiety_status alloc_way(moiety_pool *pool, const struct alloc_way *way,
                               moiety_stream stream, moiety_devptr *out)
{
    moiety_devptr address = 0;
    moiety_status status = find_pool(way, &pool);
    if (status == MOIETY_OK)
        status = take(pool, way, stream, &address);
    if (status == MOIETY_OK && way->is_zeroed && address)
        status = zero_or_free(pool, address, way->args.size_bytes, stream);
    if (status == MOIETY_OK)
        *out = address;
    return status;
}

/* Options of this version that ask for MOIETY_ALLOC_NO_CALL alone. */
static inline bool is_no_call(const moiety_alloc_options *options)
{
    return options && options->flags == MOIETY_ALLOC_NO_CALL &&
           options->struct_size == sizeof(*options) &&
           options->alignment_bytes <= 1 && !options->tenant &&
           !options->private_arena;
}

moiety_status moiety_alloc_with(moiety_pool *pool, size_t size_bytes,
                                moiety_stream stream,
                                const moiety_alloc_options *options,
                                moiety_devptr *out)
{
    struct alloc_way way;
    if (is_no_call(options))
        return moietyi_alloc_no_call(pool, size_bytes, stream, out);
    if (!options)
        return moiety_alloc(pool, size_bytes, stream, out);
    if (!out)
        return moietyi_fail(MOIETY_E_INVALID, "moiety_alloc_with: out is NULL");
    moiety_status status = alloc_way_read(options, size_bytes, stream, &way);
    if (status != MOIETY_OK)
        return status;
    return way.has_no_call
               ? moietyi_alloc_no_call(pool, size_bytes, stream, out)
               : alloc_way(pool, &way, stream, out);
}
