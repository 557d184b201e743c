/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The public side of sharing between processes: arguments.
 */
#include "moiety/ipc.h"

#include "pool/base/cancel.h"
#include "pool/base/failure.h"
#include "pool/base/handles.h"
#include "pool/core/body.h"
#include "pool/core/recorded.h"
#include "pool/graph/privates.h"
#include "pool/ipc/exports.h"
#include "pool/ipc/handle.h"
#include "pool/ipc/import.h"

/* `ticks`: its moment, or 0. */
static void ipc_note(const struct moietyi_call *call, moiety_history_kind kind,
                     uint64_t ticks, moiety_status status,
                     moiety_devptr address)
{
    const struct moietyi_note note = {
        .kind = kind, .status = status, .ticks = ticks, .address = address};
    moietyi_note(call, &note);
}

static bool is_private(const struct moietyi_call *call, moiety_devptr address)
{
    moietyi_grain grain;
    return moietyi_grain_of(call->engine->lookup, address, &grain) &&
           moietyi_privates_owner(call->pool->body->privates, grain);
}

/* The result of an export: a handle, or a message. */
struct export_form {
    moiety_ipc_handle *out; /* NULL: a message into the socket */
    int socket;
    bool is_ticket;
};

static moiety_status export_to(const struct moietyi_call *call,
                               moiety_devptr address,
                               const struct export_form *form)
{
    struct moietyi_exports *exports = call->pool->body->exports;
    bool is_mapped = moietyi_exports_are_mapped(exports);
    if (!form->out)
        return (is_mapped ? moietyi_share_send : moietyi_export_send)(
            exports, call->engine, address, form->socket);
    if (is_mapped && !form->is_ticket) {
        return moietyi_fail(MOIETY_E_UNSUPPORTED,
                            "the pool's memory is mapped, which no handle "
                            "opens: moiety_ipc_send() sends it, and "
                            "moiety_ipc_ticket() names what was sent");
    }
    return (is_mapped ? moietyi_share_ticket : moietyi_export)(
        exports, call->engine, address, form->out);
}

static moiety_status export_checked(const struct moietyi_call *call,
                                    moiety_devptr address,
                                    const struct export_form *form)
{
    if (!call->pool->body->exports)
        return moietyi_fail(MOIETY_E_UNSUPPORTED,
                            "the pool is not exportable: it was made "
                            "without MOIETY_POOL_EXPORTABLE");
    if (moietyi_is_lost(call->pool))
        return moietyi_context_refuse(call->engine->streams.own_context);
    if (is_private(call, address))
        return moietyi_fail(MOIETY_E_UNSUPPORTED,
                            "the block at 0x%llx is of a private arena",
                            address);
    return export_to(call, address, form);
}

static moiety_status export_by(moiety_pool *pool, moiety_devptr address,
                               const struct export_form *form)
{
    struct moietyi_call call;
    moiety_status status = moietyi_call_begin(pool, MOIETY_STREAM_DONE, &call);
    if (status != MOIETY_OK)
        return status;
    status = export_checked(&call, address, form);
    ipc_note(&call, MOIETY_HISTORY_EXPORT, 0, status, address);
    moietyi_call_end(&call);
    return status;
}

moiety_status moiety_ipc_export(moiety_pool *pool, moiety_devptr address,
                                moiety_ipc_handle *out)
{
    if (!out)
        return moietyi_fail(MOIETY_E_INVALID, "moiety_ipc_export: out is NULL");
    return export_by(pool, address, &(struct export_form){.out = out});
}

moiety_status moiety_ipc_ticket(moiety_pool *pool, moiety_devptr address,
                                moiety_ipc_handle *out)
{
    if (!out)
        return moietyi_fail(MOIETY_E_INVALID, "moiety_ipc_ticket: out is NULL");
    return export_by(pool, address,
                     &(struct export_form){.out = out, .is_ticket = true});
}

moiety_status moiety_ipc_send(moiety_pool *pool, moiety_devptr address,
                              int socket)
{
    return export_by(pool, address, &(struct export_form){.socket = socket});
}

moiety_status moiety_ipc_release_exports(moiety_pool *pool,
                                         moiety_devptr address)
{
    struct moietyi_call call;
    moiety_status status = moietyi_call_begin(pool, MOIETY_STREAM_ANY, &call);
    if (status != MOIETY_OK)
        return status;
    struct moietyi_exports *exports = pool->body->exports;
    uint64_t ticks = moietyi_ticks_before(&call);
    if (exports)
        status = moietyi_exports_release(exports, &call, address);
    ipc_note(&call, MOIETY_HISTORY_RELEASE, ticks, status, address);
    moietyi_call_end(&call);
    return status;
}

/* A call that is of no pool. */
struct visit {
    struct moietyi_thread *thread;
    const struct moietyi_driver *driver;
    int cancel_state; /* the thread's, held meanwhile */
};

static void ipc_end(const struct visit *visit)
{
    moietyi_thread_leave(visit->thread);
    moietyi_cancel_restore(visit->cancel_state);
}

static moiety_status ipc_begin(struct visit *out)
{
    moiety_status status = moietyi_thread_enter(&out->thread);
    if (status != MOIETY_OK)
        return status;
    out->cancel_state = moietyi_cancel_hold();
    status = moietyi_driver_open(&out->driver);
    if (status != MOIETY_OK)
        ipc_end(out);
    return status;
}

moiety_status moiety_ipc_import(const void *handle, size_t handle_bytes,
                                moiety_context context, moiety_devptr *out)
{
    struct visit visit;
    moiety_ipc_handle own;
    if (!handle || !out)
        return moietyi_fail(MOIETY_E_INVALID,
                            "moiety_ipc_import: handle or out is NULL");
    moiety_status status = moietyi_handle_read(handle, handle_bytes, &own);
    if (status == MOIETY_OK)
        status = ipc_begin(&visit);
    if (status != MOIETY_OK)
        return status;
    if (context)
        status = moietyi_context_check(visit.driver, context);
    if (status == MOIETY_OK)
        status = moietyi_import(visit.driver, &own, NULL, context, out);
    ipc_end(&visit);
    return status;
}

moiety_status moiety_ipc_receive(int socket, moiety_context context,
                                 moiety_ipc_handle *out_handle,
                                 moiety_devptr *out)
{
    struct visit visit;
    if (!out)
        return moietyi_fail(MOIETY_E_INVALID,
                            "moiety_ipc_receive: out is NULL");
    moiety_status status = ipc_begin(&visit);
    if (status != MOIETY_OK)
        return status;
    status =
        moietyi_import_received(visit.driver, socket, context, out_handle, out);
    ipc_end(&visit);
    return status;
}

static moiety_status close_any(const struct moietyi_driver *driver,
                               moiety_devptr address, moiety_stream stream,
                               moiety_closing *out_closing)
{
    uint64_t number = 0;
    moiety_status status = moietyi_import_close(driver, address, stream,
                                                out_closing ? &number : NULL);
    if (status == MOIETY_E_FOREIGN) {
        status = moietyi_exports_close(address);
        if (status != MOIETY_OK)
            return moietyi_fail(status, "address 0x%llx is of no open import",
                                address);
    }
    if (status == MOIETY_OK && out_closing)
        *out_closing = moietyi_closing_of_number(number);
    return status;
}

moiety_status moiety_ipc_close(moiety_devptr address, moiety_stream stream,
                               moiety_closing *out_closing)
{
    struct visit visit;
    moiety_status status = ipc_begin(&visit);
    if (status != MOIETY_OK)
        return status;
    if (address)
        status = close_any(visit.driver, address, stream, out_closing);
    else if (out_closing)
        *out_closing = NULL;
    ipc_end(&visit);
    return status;
}

moiety_status moiety_ipc_wait(moiety_closing closing, uint32_t timeout_ms)
{
    struct visit visit;
    moiety_status status = ipc_begin(&visit);
    if (status != MOIETY_OK)
        return status;
    status = moietyi_import_wait(
        visit.driver, moietyi_number_of_closing(closing), timeout_ms);
    ipc_end(&visit);
    return status;
}

moiety_status moiety_ipc_trim(uint32_t keep_count, uint32_t *out_open)
{
    struct visit visit;
    uint32_t open_count = 0;
    moiety_status status = ipc_begin(&visit);
    if (status != MOIETY_OK)
        return status;
    status = moietyi_import_trim(visit.driver, keep_count, &open_count);
    ipc_end(&visit);
    if (out_open)
        *out_open = open_count;
    return status;
}
