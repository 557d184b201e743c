/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The exporting side, for the facade: what a pool has given handles of. One per
 * exportable pool.
 */
#ifndef BINADE_POOL_IPC_EXPORTS_H_
#define BINADE_POOL_IPC_EXPORTS_H_

#include "binade/ipc.h"
#include "pool/cache/cache.h"
#include "pool/driver/driver_table.h"
#include "pool/segment/mapper.h"
#include "pool/segment/segment.h"

struct binadei_exports;

struct binadei_exports_options {
    const struct binadei_driver *driver;
    struct binadei_context *own_context; /* the pool's; outlives the exports */
    struct binadei_segments *segments;
    struct binadei_buddy *buddy;
    /* Of mapped memory; or NULL. Outlives the exports. */
    const struct binadei_mapper *mapper;
};

/* Asks the driver what the context's device is called. BINADE_OK,
 * BINADE_E_UNSUPPORTED, BINADE_E_NO_HOST_MEMORY, or what the driver said. */
BINADE_MUST_USE binade_status
binadei_exports_create(const struct binadei_exports_options *options,
                       struct binadei_exports **out);
/* Gives blocks that were freed meanwhile to the buddy: after the engine was
 * drained, with no call under way. NULL is fine. */
void binadei_exports_drain(struct binadei_exports *exports,
                           struct binadei_engine *engine);
void binadei_exports_destroy(struct binadei_exports *exports);

/* As binade_ipc_export(). */
BINADE_MUST_USE binade_status binadei_export(
    struct binadei_exports *exports, const struct binadei_engine *engine,
    binade_devptr address, binade_ipc_handle *out);
/* Whether the memory is mapped: then share.c makes its tickets and sends it. */
bool binadei_exports_are_mapped(const struct binadei_exports *exports);
/* As binade_ipc_ticket() and binade_ipc_send(), of mapped memory. */
BINADE_MUST_USE binade_status binadei_share_ticket(
    struct binadei_exports *exports, const struct binadei_engine *engine,
    binade_devptr address, binade_ipc_handle *out);
BINADE_MUST_USE binade_status binadei_share_send(
    struct binadei_exports *exports, const struct binadei_engine *engine,
    binade_devptr address, int socket);
/* As binadei_export(), into a socket. */
BINADE_MUST_USE binade_status binadei_export_send(
    struct binadei_exports *exports, const struct binadei_engine *engine,
    binade_devptr address, int socket);
/* As binade_ipc_release_exports(); `call` is for BINADE_STREAM_ANY. */
BINADE_MUST_USE binade_status
binadei_exports_release(struct binadei_exports *exports,
                        struct binadei_call *call, binade_devptr address);

/* What becomes of a block with the SPECIAL bit that the program frees. */
enum binadei_export_free {
    BINADEI_EXPORT_NONE, /* it is not exported */
    BINADEI_EXPORT_KEPT, /* noted; it is the exports' now */
    BINADEI_EXPORT_AGAIN /* it was freed before */
};
enum binadei_export_free binadei_exports_free(struct binadei_exports *exports,
                                              binade_devptr block);
/* Whether the block that starts there is exported. */
bool binadei_exports_has(struct binadei_exports *exports, binade_devptr block);

/* The blocks that are exported. */
struct binadei_exported {
    binade_devptr address;
    bool is_freed; /* by the program: kept */
};
struct binadei_exported_list {
    struct binadei_exported *blocks;
    size_t capacity;
    size_t count; /* there are; more than the capacity are not written */
};
void binadei_exports_list(struct binadei_exports *exports,
                          struct binadei_exported_list *out);

/* The importing side within the exporter's own process. BINADE_OK or
 * BINADE_E_STALE. */
BINADE_MUST_USE binade_status
binadei_exports_open(const binade_ipc_handle *handle, binade_devptr *out);
/* BINADE_OK, BINADE_E_INVALID (none is open), or BINADE_E_FOREIGN. */
BINADE_MUST_USE binade_status binadei_exports_close(binade_devptr address);

#endif
