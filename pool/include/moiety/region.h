/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Regions: device memory that outlives the process that made it. A keeper, the
 * program moiety-serve, holds the memory by its descriptors and never calls the
 * driver. A process creates a region, writes it and commits it; from then on
 * processes open it by its name, also when the writer has ended.
 *
 *     moiety_keeper_options at = MOIETY_KEEPER_OPTIONS_INIT;
 *     moiety_region_part part = {context, 0, 4ULL << 30, 0, 0};
 *     moiety_region_options options = MOIETY_REGION_OPTIONS_INIT;
 *     at.path = "/run/user/1000/moiety";
 *     options.name = "weights";
 *     options.parts = &part;
 *     options.part_count = 1;
 *     if (moiety_keeper_connect(&at, &keeper) != MOIETY_OK ||
 *         moiety_region_create(keeper, &options, &region) != MOIETY_OK)
 *         return fail(moiety_last_error_message());
 *     ... write, and wait for that work ...
 *     moiety_region_commit(region, layout, layout_bytes);
 *
 * A reader is trusted. Its mapping is read-only to catch mistakes: a write is an
 * illegal address, which costs the process its context. A process that has opened
 * a region could map it for writing, and could keep it after a drop.
 *
 * The functions have these rules in common. A keeper and its regions belong to
 * one thread at a time; a call beside another one is refused with MOIETY_E_IN_USE.
 * A call waits at most about ten seconds for the keeper (MOIETY_E_TIMEOUT). If the
 * keeper's process for clients was restarted, the call connects again.
 * MOIETY_E_PEER_GONE means that no keeper answers. A child of a fork is refused
 * with MOIETY_E_FORKED.
 */
#ifndef MOIETY_REGION_H_
#define MOIETY_REGION_H_

#include "moiety/status.h"
#include "moiety/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A connection to a keeper. */
typedef struct moiety_keeper moiety_keeper;
/** A region that this process has created or opened. */
typedef struct moiety_region moiety_region;

/** Bytes of a region's name, its final 0 included. */
#define MOIETY_REGION_NAME_BYTES 256
/** Parts of a region, at most: one for each device. */
#define MOIETY_REGION_PARTS 16
/** Processes that a moiety_region_entry names, at most. */
#define MOIETY_REGION_PIDS 16
/** Bytes of a layout, at most. */
#define MOIETY_REGION_LAYOUT_BYTES 1048576

/* Bits of moiety_region_options.flags, for moiety_region_open(). */

/** Opens the region to change it; no other process may hold it. */
#define MOIETY_REGION_WRITE UINT32_C(1)

/** The state of a region. Never renumbered. */
typedef enum moiety_region_state {
    /** A process writes it. If that process ends first, the region goes. */
    MOIETY_REGION_WRITING = 1,
    /** Processes may open it. */
    MOIETY_REGION_COMMITTED = 2,
    /** The writer's socket is closed and its process has not ended: its work may
     *  still write. Nobody may open the region. */
    MOIETY_REGION_FENCED = 3,
    /** It has no name any more, and goes when no process holds it. */
    MOIETY_REGION_DROPPED = 4,
    /** Two processes found that its memory is not what its maker said. Nobody may
     *  open it; it can be dropped. */
    MOIETY_REGION_QUARANTINED = 5
} moiety_region_state;

/** How to reach a keeper. */
typedef struct moiety_keeper_options {
    /** Bytes of this struct. */
    uint32_t struct_size;
    /** 0. */
    uint32_t flags;
    /** The keeper's socket, at most 107 bytes. */
    const char *path;
} moiety_keeper_options;

/** The memory of a region on one device. */
typedef struct moiety_region_part {
    /** The context in which this process uses the part, one of `device`; NULL:
     *  this process does not map the part. */
    moiety_context context;
    /** Address to map it at, a multiple of 2 MiB; 0: any. */
    moiety_devptr want_address;
    /** moiety_region_create(): bytes, rounded up to a multiple of 2 MiB.
     *  moiety_region_open(): 0, or the bytes that the part must have. */
    uint64_t size_bytes;
    /** Ordinal of the device. */
    int32_t device;
    /** 0. */
    uint32_t reserved;
} moiety_region_part;

/** How a region is created or opened. 0 is the default of `flags` and
 *  `handle_bytes`. */
typedef struct moiety_region_options {
    /** Bytes of this struct. */
    uint32_t struct_size;
    /** MOIETY_REGION_ bits; 0 for moiety_region_create(). */
    uint32_t flags;
    /** 1 to 255 bytes without '/'. */
    const char *name;
    /** moiety_region_create(): all parts. moiety_region_open(): those that this
     *  process maps; a region's other parts stay unmapped. No two of a device. */
    const moiety_region_part *parts;
    /** 0 is for moiety_region_open() only: it maps nothing. */
    uint32_t part_count;
    /** 0. */
    uint32_t reserved;
    /** moiety_region_create(): bytes of a handle, a multiple of 2 MiB; 0: 1 GiB.
     *  The last handle of a part may be smaller. Each handle is a descriptor. */
    uint64_t handle_bytes;
} moiety_region_options;

/** Every field at its default. */
#ifdef __cplusplus
#define MOIETY_KEEPER_OPTIONS_INIT                                             \
    {                                                                          \
        (uint32_t)sizeof(moiety_keeper_options), 0, NULL                       \
    }
#define MOIETY_REGION_OPTIONS_INIT                                             \
    {                                                                          \
        (uint32_t)sizeof(moiety_region_options), 0, NULL, NULL, 0, 0, 0        \
    }
#else
#define MOIETY_KEEPER_OPTIONS_INIT                                             \
    {                                                                          \
        .struct_size = (uint32_t)sizeof(moiety_keeper_options)                 \
    }
#define MOIETY_REGION_OPTIONS_INIT                                             \
    {                                                                          \
        .struct_size = (uint32_t)sizeof(moiety_region_options)                 \
    }
#endif

/** A region, and one of its parts, as this process sees it. */
typedef struct moiety_region_info {
    /** Bytes of this struct: set by the caller before the call. */
    uint32_t struct_size;
    /** MOIETY_REGION_WRITING or MOIETY_REGION_COMMITTED, as of this process's
     *  last call. */
    uint32_t state;
    /** Commits until this process created, opened or committed it. */
    uint64_t generation;
    /** Where this process maps the part; 0: nowhere. */
    moiety_devptr address;
    /** Bytes of the part, and of its handles. */
    uint64_t size_bytes;
    uint64_t handle_bytes;
    /** The device that has the part (cuDeviceGetUuid). */
    uint8_t device_uuid[16];
    /** The bytes of the last commit until then; NULL: none. They are the region's
     *  and stay until it is committed or closed. */
    const void *layout;
    uint64_t layout_bytes;
    /** Parts of the region. */
    uint32_t part_count;
    /** 0. */
    uint32_t reserved;
} moiety_region_info;

/** A region, as its keeper sees it. */
typedef struct moiety_region_entry {
    /** Bytes of this struct: set by the caller before the call. */
    uint32_t struct_size;
    /** A moiety_region_state. */
    uint32_t state;
    /** Number that the keeper gives to no other region. */
    uint64_t id;
    uint64_t generation;
    /** Bytes of all parts, and of the layout. */
    uint64_t size_bytes;
    uint64_t layout_bytes;
    uint32_t part_count;
    /** Leases of processes, the writer's included. */
    uint32_t hold_count;
    /** The process that writes it, in the keeper's pid namespace; 0: none. */
    uint32_t writer_pid;
    /** 0. */
    uint32_t reserved;
    /** Processes that hold it, in the keeper's pid namespace, each once, the latest
     *  first; behind them 0. Those of other namespaces are left out. */
    uint32_t hold_pids[MOIETY_REGION_PIDS];
    char name[MOIETY_REGION_NAME_BYTES];
} moiety_region_entry;

/**
 * Connects to a keeper.
 *
 * @param options  `path` is set.
 * @param out      [out] The connection.
 *
 * @return MOIETY_E_INVALID  An argument is NULL or out of range; or keeper and
 *         process are not of one user.
 * @return MOIETY_E_PEER_GONE  No keeper is at the path.
 * @return MOIETY_E_UNSUPPORTED  The keeper speaks another version, or cannot see
 *         when this process ends.
 * @return MOIETY_E_NO_HOST_MEMORY, MOIETY_E_TIMEOUT
 *
 * Ownership: the caller's, to be ended by moiety_keeper_disconnect().
 * Threads:   any. Waits for the keeper.
 * Streams:   none.
 * Context:   none; the driver is not touched.
 */
MOIETY_API MOIETY_MUST_USE moiety_status moiety_keeper_connect(
    const moiety_keeper_options *options, moiety_keeper **out);

/**
 * Ends a connection.
 *
 * @param keeper  NULL is allowed.
 *
 * @return MOIETY_E_IN_USE  A region of it is not closed, or another call runs.
 *
 * Ownership: the connection is gone when MOIETY_OK is returned.
 * Threads:   any.
 * Streams:   none.
 * Context:   none; the driver is not touched.
 */
MOIETY_API moiety_status moiety_keeper_disconnect(moiety_keeper *keeper);

/**
 * Creates the memory of a region and gives the keeper a copy of its descriptors.
 * The memory has undefined contents. This process writes the region until it
 * commits it. If the process ends or closes the region before that, the region
 * goes.
 *
 * @param keeper   A connection.
 * @param options  `name`, `parts` and `part_count` are set. The parts' contexts
 *                 may be NULL: then no context is needed.
 * @param out      [out] Written only when MOIETY_OK is returned.
 *
 * @return MOIETY_E_INVALID  An argument is NULL or out of range, or a context is
 *         not of its device.
 * @return MOIETY_E_IN_USE   The name is taken, or a wanted address.
 * @return MOIETY_E_BUDGET   The keeper's limit, or it has 1 024 regions, or it is
 *         drained.
 * @return MOIETY_E_TOO_LARGE  More than 4 096 handles.
 * @return MOIETY_E_UNSUPPORTED  The driver or the device exports no memory.
 * @return MOIETY_E_NO_HOST_MEMORY  Also for descriptors, here or in the keeper.
 * @return MOIETY_E_PEER_GONE, MOIETY_E_TIMEOUT, or what the driver said
 *
 * Ownership: the caller's, to be closed by moiety_region_close(). A failure keeps
 *            nothing.
 * Threads:   one at a time for a keeper. Calls the driver; may block.
 * Streams:   none.
 * Context:   that of each part is made current meanwhile.
 */
MOIETY_API MOIETY_MUST_USE moiety_status
moiety_region_create(moiety_keeper *keeper,
                     const moiety_region_options *options, moiety_region **out);

/**
 * Opens a committed region by its name. The process holds the region until
 * moiety_region_close() or its end.
 *
 * @param keeper   A connection.
 * @param options  `name` is set. MOIETY_REGION_WRITE makes this process the
 *                 writer: the region is to be committed again, and goes if the
 *                 process ends or closes it before that. A call that fails leaves
 *                 the region as it was.
 * @param out      [out] Written only when MOIETY_OK is returned.
 *
 * @return MOIETY_E_STALE    There is no such region.
 * @return MOIETY_E_IN_USE   A process writes it; or WRITE, and a process holds it,
 *         this one included; or a wanted address is taken.
 * @return MOIETY_E_INVALID  As for moiety_region_create(); or the region has no
 *         part on a device, or one of another size.
 * @return MOIETY_E_CORRUPT  The memory is not what its maker said: this process or
 *         two others could not map it. The keeper is notified.
 * @return MOIETY_E_UNSUPPORTED, MOIETY_E_NO_HOST_MEMORY, MOIETY_E_PEER_GONE,
 *         MOIETY_E_TIMEOUT, or what the driver said
 *
 * Ownership: the caller's, to be closed by moiety_region_close().
 * Threads:   one at a time for a keeper. Calls the driver; may block.
 * Streams:   none. The writer waited for its work before the commit.
 * Context:   that of each part is made current meanwhile.
 */
MOIETY_API MOIETY_MUST_USE moiety_status
moiety_region_open(moiety_keeper *keeper, const moiety_region_options *options,
                   moiety_region **out);

/**
 * Publishes what this process has written, all parts together, as the next
 * generation. From then on the mappings of this process are read-only.
 *
 * @param region        The process writes it. All work that writes it is over.
 * @param layout        Bytes for readers, copied; NULL: none.
 * @param layout_bytes  At most MOIETY_REGION_LAYOUT_BYTES.
 *
 * @return MOIETY_E_INVALID  `region` is NULL or not written by this process, or
 *         the layout is too long.
 * @return MOIETY_E_STALE    The keeper lost the lease, or is drained.
 * @return MOIETY_E_PEER_GONE, MOIETY_E_TIMEOUT  The keeper did not answer, so the
 *         region may be published; its mappings are read-only. Call again.
 * @return MOIETY_E_NO_HOST_MEMORY, or what the driver said: nothing is published;
 *         call again
 *
 * Ownership: the region stays the caller's.
 * Threads:   one at a time for a keeper. Calls the driver; may block.
 * Streams:   none.
 * Context:   need not be current.
 */
MOIETY_API MOIETY_MUST_USE moiety_status moiety_region_commit(
    moiety_region *region, const void *layout, size_t layout_bytes);

/**
 * Describes a region and one of its parts.
 *
 * @param region  Of this process.
 * @param part  From 0 on, in the order of the region's maker.
 * @param out   [in,out] `struct_size` is set by the caller. Written only when
 *              MOIETY_OK is returned, and nothing past `struct_size`.
 *
 * @return MOIETY_E_INVALID  An argument is NULL, there is no such part, or
 *         `struct_size` is less than that of the struct's first version.
 *
 * Ownership: the caller's struct; the layout is the region's.
 * Threads:   one at a time for a keeper. No driver call.
 * Streams:   none.
 * Context:   none.
 */
MOIETY_API MOIETY_MUST_USE moiety_status moiety_region_get_info(
    moiety_region *region, uint32_t part, moiety_region_info *out);

/**
 * Unmaps a region and ends this process's lease. The memory stays with the
 * keeper, unless the region was being written or was dropped.
 *
 * @param region  NULL is allowed. All work that uses it is over.
 *
 * @return MOIETY_E_PEER_GONE, MOIETY_E_TIMEOUT  The region is closed here; the
 *         keeper ends the lease with the process.
 * @return what the driver said: the region is still open; call again
 *
 * Ownership: the region is gone, unless the driver refused.
 * Threads:   one at a time for a keeper. Calls the driver; may block.
 * Streams:   none.
 * Context:   need not be current.
 */
MOIETY_API moiety_status moiety_region_close(moiety_region *region);

/**
 * Takes a region's name away. Its memory goes when no process holds it; until
 * then its bytes count.
 *
 * @param keeper  A connection.
 * @param name    The region's.
 *
 * @return MOIETY_E_INVALID  An argument is NULL, or the name is none.
 * @return MOIETY_E_STALE    There is no such region.
 * @return MOIETY_E_IN_USE   A process writes it.
 * @return MOIETY_E_PEER_GONE, MOIETY_E_TIMEOUT
 *
 * Ownership: none.
 * Threads:   one at a time for a keeper. Waits for the keeper.
 * Streams:   none.
 * Context:   none; the driver is not touched.
 */
MOIETY_API MOIETY_MUST_USE moiety_status
moiety_keeper_drop(moiety_keeper *keeper, const char *name);

/**
 * Describes the keeper's region with the lowest id above a given one. To see all,
 * begin at 0 and go on from the id of the last one.
 *
 * @param keeper  A connection.
 * @param after  Any id.
 * @param out    [in,out] `struct_size` is set by the caller. Written only when
 *               MOIETY_OK is returned, and nothing past `struct_size`.
 *
 * @return MOIETY_E_STALE    There is no further region.
 * @return MOIETY_E_INVALID  An argument is NULL, or `struct_size` is less than
 *         that of the struct's first version.
 * @return MOIETY_E_PEER_GONE, MOIETY_E_TIMEOUT
 *
 * Ownership: the caller's struct.
 * Threads:   one at a time for a keeper. Waits for the keeper.
 * Streams:   none.
 * Context:   none; the driver is not touched.
 */
MOIETY_API MOIETY_MUST_USE moiety_status moiety_keeper_list(
    moiety_keeper *keeper, uint64_t after, moiety_region_entry *out);

#ifdef __cplusplus
}
#endif

#endif
