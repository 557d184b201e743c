/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The public side of sharing between processes: arguments.
 */
#include "binade/ipc.h"

#include "pool/base/cancel.h"
#include "pool/base/failure.h"
#include "pool/core/body.h"
#include "pool/core/recorded.h"
#include "pool/graph/privates.h"
#include "pool/ipc/exports.h"
#include "pool/ipc/handle.h"
#include "pool/ipc/import.h"

/* `ticks`: its moment, or 0. */
static void ipc_note(const struct binadei_call *call, binade_history_kind kind,
                     uint64_t ticks, binade_status status,
                     binade_devptr address)
{
    const struct binadei_note note = {
        .kind = kind, .status = status, .ticks = ticks, .address = address};
    binadei_note(call, &note);
}

static bool is_private(const struct binadei_call *call, binade_devptr address)
{
    binadei_grain grain;
    return binadei_grain_of(call->engine->lookup, address, &grain) &&
           binadei_privates_owner(call->pool->body->privates, grain);
}

/* What an export makes: a handle, or a message. */
struct export_form {
    binade_ipc_handle *out; /* NULL: a message into the socket */
    int socket;
    bool is_ticket;
};

static binade_status export_to(const struct binadei_call *call,
                               binade_devptr address,
                               const struct export_form *form)
{
    struct binadei_exports *exports = call->pool->body->exports;
    bool is_mapped = binadei_exports_are_mapped(exports);
    if (!form->out)
        return (is_mapped ? binadei_share_send : binadei_export_send)(
            exports, call->engine, address, form->socket);
    if (is_mapped && !form->is_ticket) {
        return binadei_fail(BINADE_E_UNSUPPORTED,
                            "the pool's memory is mapped, which no handle "
                            "opens: binade_ipc_send() sends it, and "
                            "binade_ipc_ticket() names what was sent");
    }
    return (is_mapped ? binadei_share_ticket : binadei_export)(
        exports, call->engine, address, form->out);
}

static binade_status export_checked(const struct binadei_call *call,
                                    binade_devptr address,
                                    const struct export_form *form)
{
    if (!call->pool->body->exports)
        return binadei_fail(BINADE_E_UNSUPPORTED,
                            "the pool is not exportable: it was made "
                            "without BINADE_POOL_EXPORTABLE");
    if (binadei_is_lost(call->pool))
        return binadei_context_refuse(call->engine->streams.own_context);
    if (is_private(call, address))
        return binadei_fail(BINADE_E_UNSUPPORTED,
                            "the block at 0x%llx is of a private arena",
                            address);
    return export_to(call, address, form);
}

static binade_status export_by(binade_pool *pool, binade_devptr address,
                               const struct export_form *form)
{
    struct binadei_call call;
    binade_status status = binadei_call_begin(pool, BINADE_STREAM_DONE, &call);
    if (status != BINADE_OK)
        return status;
    status = export_checked(&call, address, form);
    ipc_note(&call, BINADE_HISTORY_EXPORT, 0, status, address);
    binadei_call_end(&call);
    return status;
}

binade_status binade_ipc_export(binade_pool *pool, binade_devptr address,
                                binade_ipc_handle *out)
{
    if (!out)
        return binadei_fail(BINADE_E_INVALID, "binade_ipc_export: out is NULL");
    return export_by(pool, address, &(struct export_form){.out = out});
}

binade_status binade_ipc_ticket(binade_pool *pool, binade_devptr address,
                                binade_ipc_handle *out)
{
    if (!out)
        return binadei_fail(BINADE_E_INVALID, "binade_ipc_ticket: out is NULL");
    return export_by(pool, address,
                     &(struct export_form){.out = out, .is_ticket = true});
}

binade_status binade_ipc_send(binade_pool *pool, binade_devptr address,
                              int socket)
{
    return export_by(pool, address, &(struct export_form){.socket = socket});
}

binade_status binade_ipc_release_exports(binade_pool *pool,
                                         binade_devptr address)
{
    struct binadei_call call;
    binade_status status = binadei_call_begin(pool, BINADE_STREAM_ANY, &call);
    if (status != BINADE_OK)
        return status;
    struct binadei_exports *exports = pool->body->exports;
    uint64_t ticks = binadei_ticks_before(&call);
    if (exports)
        status = binadei_exports_release(exports, &call, address);
    ipc_note(&call, BINADE_HISTORY_RELEASE, ticks, status, address);
    binadei_call_end(&call);
    return status;
}

/* A call that is of no pool. */
struct visit {
    struct binadei_thread *thread;
    const struct binadei_driver *driver;
    int cancel_state; /* the thread's, held meanwhile */
};

static void ipc_end(const struct visit *visit)
{
    binadei_thread_leave(visit->thread);
    binadei_cancel_restore(visit->cancel_state);
}

static binade_status ipc_begin(struct visit *out)
{
    binade_status status = binadei_thread_enter(&out->thread);
    if (status != BINADE_OK)
        return status;
    out->cancel_state = binadei_cancel_hold();
    status = binadei_driver_open(&out->driver);
    if (status != BINADE_OK)
        ipc_end(out);
    return status;
}

binade_status binade_ipc_import(const void *handle, size_t handle_bytes,
                                binade_context context, binade_devptr *out)
{
    struct visit visit;
    binade_ipc_handle own;
    if (!handle || !out)
        return binadei_fail(BINADE_E_INVALID,
                            "binade_ipc_import: handle or out is NULL");
    binade_status status = binadei_handle_read(handle, handle_bytes, &own);
    if (status == BINADE_OK)
        status = ipc_begin(&visit);
    if (status != BINADE_OK)
        return status;
    if (context)
        status = binadei_context_check(visit.driver, context);
    if (status == BINADE_OK)
        status = binadei_import(visit.driver, &own, NULL, context, out);
    ipc_end(&visit);
    return status;
}

binade_status binade_ipc_receive(int socket, binade_context context,
                                 binade_ipc_handle *out_handle,
                                 binade_devptr *out)
{
    struct visit visit;
    if (!out)
        return binadei_fail(BINADE_E_INVALID,
                            "binade_ipc_receive: out is NULL");
    binade_status status = ipc_begin(&visit);
    if (status != BINADE_OK)
        return status;
    status =
        binadei_import_received(visit.driver, socket, context, out_handle, out);
    ipc_end(&visit);
    return status;
}

static binade_status close_any(const struct binadei_driver *driver,
                               binade_devptr address, binade_stream stream,
                               uint64_t *out_closing)
{
    binade_status status =
        binadei_import_close(driver, address, stream, out_closing);
    if (status != BINADE_E_FOREIGN)
        return status;
    status = binadei_exports_close(address);
    if (status == BINADE_OK && out_closing)
        *out_closing = 0;
    if (status != BINADE_OK)
        return binadei_fail(status, "address 0x%llx is of no open import",
                            address);
    return status;
}

binade_status binade_ipc_close(binade_devptr address, binade_stream stream,
                               uint64_t *out_closing)
{
    struct visit visit;
    binade_status status = ipc_begin(&visit);
    if (status != BINADE_OK)
        return status;
    if (address)
        status = close_any(visit.driver, address, stream, out_closing);
    else if (out_closing)
        *out_closing = 0;
    ipc_end(&visit);
    return status;
}

binade_status binade_ipc_wait(uint64_t closing, uint32_t timeout_ms)
{
    struct visit visit;
    binade_status status = ipc_begin(&visit);
    if (status != BINADE_OK)
        return status;
    status = binadei_import_wait(visit.driver, closing, timeout_ms);
    ipc_end(&visit);
    return status;
}

binade_status binade_ipc_trim(uint32_t keep_count, uint32_t *out_open)
{
    struct visit visit;
    uint32_t open_count = 0;
    binade_status status = ipc_begin(&visit);
    if (status != BINADE_OK)
        return status;
    status = binadei_import_trim(visit.driver, keep_count, &open_count);
    ipc_end(&visit);
    if (out_open)
        *out_open = open_count;
    return status;
}
