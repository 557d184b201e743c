/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The exporting side, for the facade: what a pool has given handles of. One per
 * exportable pool.
 */
#ifndef MOIETY_POOL_IPC_EXPORTS_H_
#define MOIETY_POOL_IPC_EXPORTS_H_

#include "moiety/ipc.h"
#include "pool/cache/cache.h"
#include "pool/driver/driver_table.h"
#include "pool/segment/mapper.h"
#include "pool/segment/segment.h"

struct moietyi_exports;

struct moietyi_exports_options {
    const struct moietyi_driver *driver;
    struct moietyi_context *own_context; /* the pool's; outlives the exports */
    struct moietyi_segments *segments;
    struct moietyi_space *space;
    /* Of mapped memory; or NULL. Outlives the exports. */
    const struct moietyi_mapper *mapper;
};

/* Asks the driver what the context's device is called. MOIETY_OK,
 * MOIETY_E_UNSUPPORTED, MOIETY_E_NO_HOST_MEMORY, or what the driver said. */
MOIETY_MUST_USE moiety_status
moietyi_exports_create(const struct moietyi_exports_options *options,
                       struct moietyi_exports **out);
/* Gives blocks that were freed meanwhile to the space: after the engine was
 * drained, with no call under way. NULL is fine. */
void moietyi_exports_drain(struct moietyi_exports *exports,
                           struct moietyi_engine *engine);
void moietyi_exports_destroy(struct moietyi_exports *exports);

/* As moiety_ipc_export(). */
MOIETY_MUST_USE moiety_status moietyi_export(
    struct moietyi_exports *exports, const struct moietyi_engine *engine,
    moiety_devptr address, moiety_ipc_handle *out);
/* Whether the memory is mapped: then share.c makes its tickets and sends it. */
bool moietyi_exports_are_mapped(const struct moietyi_exports *exports);
/* As moiety_ipc_ticket() and moiety_ipc_send(), of mapped memory. */
MOIETY_MUST_USE moiety_status moietyi_share_ticket(
    struct moietyi_exports *exports, const struct moietyi_engine *engine,
    moiety_devptr address, moiety_ipc_handle *out);
MOIETY_MUST_USE moiety_status moietyi_share_send(
    struct moietyi_exports *exports, const struct moietyi_engine *engine,
    moiety_devptr address, int socket);
/* As moietyi_export(), into a socket. */
MOIETY_MUST_USE moiety_status moietyi_export_send(
    struct moietyi_exports *exports, const struct moietyi_engine *engine,
    moiety_devptr address, int socket);
/* As moiety_ipc_release_exports(); `call` is for MOIETY_STREAM_ANY. */
MOIETY_MUST_USE moiety_status
moietyi_exports_release(struct moietyi_exports *exports,
                        struct moietyi_call *call, moiety_devptr address);

/* What becomes of a block with the SPECIAL bit that the program frees. */
enum moietyi_export_free {
    MOIETYI_EXPORT_NONE, /* it is not exported */
    MOIETYI_EXPORT_KEPT, /* noted; it is the exports' now */
    MOIETYI_EXPORT_AGAIN /* it was freed before */
};
enum moietyi_export_free moietyi_exports_free(struct moietyi_exports *exports,
                                              moiety_devptr block);
/* Whether the block that starts there is exported. */
bool moietyi_exports_has(struct moietyi_exports *exports, moiety_devptr block);

/* The blocks that are exported. */
struct moietyi_exported {
    moiety_devptr address;
    bool is_freed; /* by the program: kept */
};
struct moietyi_exported_list {
    struct moietyi_exported *blocks;
    size_t capacity;
    size_t count; /* there are; more than the capacity are not written */
};
void moietyi_exports_list(struct moietyi_exports *exports,
                          struct moietyi_exported_list *out);

/* The importing side within the exporter's own process. MOIETY_OK or
 * MOIETY_E_STALE. */
MOIETY_MUST_USE moiety_status
moietyi_exports_open(const moiety_ipc_handle *handle, moiety_devptr *out);
/* MOIETY_OK, MOIETY_E_INVALID (none is open), or MOIETY_E_FOREIGN. */
MOIETY_MUST_USE moiety_status moietyi_exports_close(moiety_devptr address);

#endif
