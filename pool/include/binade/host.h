/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Pinned host memory on the right NUMA node. An arena is a pool (binade/pool.h)
 * over memory that was mapped, bound to a node, touched there by several
 * threads and registered with the driver; where its pages then are is read back
 * from the kernel and reported. docs/numa.md says what is guaranteed.
 *
 * An arena is one pool of one kind on one set of nodes: so no block ever moves
 * from one node to another by being reused. Its memory is visible to all
 * contexts of the process.
 *
 * Statuses that every function below can return: as binade/pool.h says.
 */
#ifndef BINADE_HOST_H_
#define BINADE_HOST_H_

#include "binade/pool.h"
#include "binade/status.h"
#include "binade/stream.h"
#include "binade/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A host arena. */
typedef struct binade_host binade_host;

/**
 * Named where a stream is named: memory that the CPU will write. No stream
 * orders the CPU, so such a block is served only when all work that used it is
 * over. The alternative is a stream, which says DEVICE_ORDERED: the CPU leaves
 * the block alone until work on that stream has filled it.
 */
#define BINADE_HOST_CPU BINADE_STREAM_ANY

/** Which nodes an arena's memory is to be on. Never renumbered. */
typedef enum binade_host_policy {
    /** Those nearest to the device; all where the system does not know. */
    BINADE_HOST_NEAREST = 0,
    /** That of the CPU which runs binade_host_create(). */
    BINADE_HOST_CALLER = 1,
    /** Those in `nodes`. */
    BINADE_HOST_EXPLICIT = 2,
    /** Those in `nodes`, page by page in turn. */
    BINADE_HOST_INTERLEAVE = 3
} binade_host_policy;

/* How an arena behaves: bits of binade_host_options.flags. */

/** What would be a fallback, BINADE_HOST_FELL_, is an error. */
#define BINADE_HOST_STRICT (UINT32_C(1) << 0)
/** Written by the CPU past its caches, and slow to read by it. The driver
 *  allocates it: not with READ_ONLY or pages of a size. */
#define BINADE_HOST_WRITE_COMBINED (UINT32_C(1) << 1)
/** The device only reads it. */
#define BINADE_HOST_READ_ONLY (UINT32_C(1) << 2)
/** From the system's set-aside pages of 2 MiB or 1 GiB; not both. */
#define BINADE_HOST_HUGE_2MIB (UINT32_C(1) << 3)
#define BINADE_HOST_HUGE_1GIB (UINT32_C(1) << 4)
/** As BINADE_POOL_REPORT_LEAKS. */
#define BINADE_HOST_REPORT_LEAKS (UINT32_C(1) << 5)

/* What an arena had to do without: bits of binade_host_stats.fallbacks. */

/** The system refused to bind memory: it is where the kernel put it. */
#define BINADE_HOST_FELL_TO_UNBOUND (UINT32_C(1) << 0)
/** The nodes were full: some pages are on other nodes. */
#define BINADE_HOST_FELL_ELSEWHERE (UINT32_C(1) << 1)
/** There were no pages of 1 GiB; none of 2 MiB either. */
#define BINADE_HOST_FELL_TO_2MIB (UINT32_C(1) << 2)
#define BINADE_HOST_FELL_TO_TRANSPARENT (UINT32_C(1) << 3)
/** Not all threads that should touch the memory could be started. */
#define BINADE_HOST_FELL_TO_FEWER_THREADS (UINT32_C(1) << 4)
/** The kernel did not tell of all pages where they are. */
#define BINADE_HOST_FELL_TO_UNVERIFIED (UINT32_C(1) << 5)
/** The process may not use the nodes next to the device, or it is unknown which
 *  they are; likewise for CALLER. Other nodes were chosen:
 *  binade_host_report(). */
#define BINADE_HOST_FELL_TO_OTHER_NODES (UINT32_C(1) << 6)

/** How an arena is made. Begin with BINADE_HOST_OPTIONS_INIT. */
typedef struct binade_host_options {
    /** Bytes of this struct. */
    uint32_t struct_size;
    /** BINADE_HOST_ bits. */
    uint32_t flags;
    /** A binade_host_policy. */
    uint32_t policy;
    /** Ordinal of the device that the memory is to be near to and whose
     *  primary context the arena uses and keeps alive. */
    int32_t device;
    /** NULL, or the context to use, which must outlive the arena; it must be
     *  one of `device`. */
    binade_context context;
    /** Bit i of word i / 64: the node with the system's number i. For EXPLICIT
     *  and INTERLEAVE; 0 otherwise. */
    uint64_t nodes[4];
    /** Most that the arena ever reserves; 0: as much as there is. */
    uint64_t limit_bytes;
    /** As in binade_pool_options. */
    uint64_t first_segment_bytes;
    uint64_t largest_segment_bytes;
    uint64_t thread_cache_bytes;
    /** Threads that touch new memory; 0: one for each CPU of the nodes, 16 at
     *  most. Up to 64. */
    uint32_t touch_threads;
    /** As in binade_pool_options. */
    uint32_t wait_ms;
} binade_host_options;

/** Every field at its default. */
#define BINADE_HOST_OPTIONS_INIT                                               \
    {                                                                          \
        (uint32_t)sizeof(binade_host_options), 0, BINADE_HOST_NEAREST, 0,      \
            NULL, {0, 0, 0, 0}, 0, UINT64_C(64) << 20, UINT64_C(1) << 30,      \
            UINT64_C(64) << 20, 0, 1000                                        \
    }

/**
 * Makes an arena. No memory is reserved before the first allocation.
 *
 * The environment variable BINADE_CONF (binade/pool.h) goes over the options by
 * the keys host_place (nearest, caller, nodes as 0+2-3, or interleave=0+2-3),
 * host_strict (0 or 1), host_huge (0, 2M or 1G), host_limit (bytes) and
 * host_threads. Its other keys are not for arenas.
 *
 * @param options  NULL for the defaults.
 * @param out      [out] The arena. Written only when BINADE_OK is returned.
 *
 * @return BINADE_OK
 * @return BINADE_E_INVALID  `out` is NULL; a field is out of range; two flags
 *         exclude each other; a node does not exist or is not allowed to this
 *         process; the limit is beyond what a strict arena's nodes have.
 * @return BINADE_E_UNSUPPORTED  STRICT, and where the device is is not known, or
 *         the topology is not this machine's (HWLOC_XMLFILE, HWLOC_SYNTHETIC).
 * @return BINADE_E_NO_HOST_MEMORY
 * @return what binade_pool_create() returns
 *
 * Ownership: the caller's, to be destroyed by binade_host_destroy().
 * Threads:   any. Calls the driver; may block. The first of the process reads
 *            the machine's topology, which takes milliseconds.
 * Streams:   none.
 * Context:   any may be current, and stays so.
 */
BINADE_API BINADE_MUST_USE binade_status
binade_host_create(const binade_host_options *options, binade_host **out);

/**
 * Destroys an arena and unpins its memory, also what was never freed: as
 * binade_pool_destroy(). Its pool ends with it. Both handles stay recognisable:
 * later calls with them return BINADE_E_INVALID.
 *
 * @param host       NULL does nothing.
 * @param out_leaks  [out] As binade_pool_destroy().
 *
 * @return as binade_pool_destroy()
 * @return BINADE_E_INVALID  also when `host` was destroyed before.
 *
 * Ownership: ends, unless BINADE_E_BUSY is returned. Less than 512 bytes stay
 *            behind for each arena and its pool.
 * Threads:   one; no other call on this arena may be under way. Unpinning
 *            stalls the launches of all threads of the process.
 * Streams:   work that is queued on any of them is waited for.
 * Context:   any may be current.
 */
BINADE_API binade_status binade_host_destroy(binade_host *host,
                                             binade_leaks *out_leaks);

/**
 * Takes `size_bytes` of pinned memory.
 *
 * @param host        The arena.
 * @param size_bytes  Bytes wanted, rounded as binade_alloc() does.
 * @param stream      BINADE_HOST_CPU, or DEVICE_ORDERED: the stream whose work
 *                    will write the block before the CPU looks at it. 0 is a
 *                    stream, the legacy one.
 * @param out         [out] Its address for the CPU. Aligned as binade_alloc()
 *                    aligns. Written only when BINADE_OK is returned.
 *
 * @return as binade_alloc(); BINADE_E_INVALID when `host` is NULL or destroyed.
 *
 * Ownership: the caller's until it is freed into the same arena.
 * Threads:   as binade_alloc(). Growing happens outside any lock and blocks:
 *            in the kernel, while pages are cleared, and in the driver.
 * Streams:   with BINADE_HOST_CPU nothing is pending on the block. With a
 *            stream, work that is on it already may still be using it.
 * Context:   any may be current.
 */
BINADE_API BINADE_MUST_USE binade_status binade_host_alloc(binade_host *host,
                                                           size_t size_bytes,
                                                           binade_stream stream,
                                                           void **out);

/** The same, but never waits: as binade_try_alloc(). It may grow the arena. */
BINADE_API BINADE_MUST_USE binade_status binade_host_try_alloc(
    binade_host *host, size_t size_bytes, binade_stream stream, void **out);

/**
 * Gives a block back, as binade_free().
 *
 * @param host     The arena that it is from.
 * @param address  As it was allocated; NULL does nothing.
 * @param stream   The stream whose queued work uses it last; BINADE_STREAM_DONE
 *                 when no work is pending; BINADE_STREAM_ANY when no stream can
 *                 be named.
 *
 * @return as binade_free(); BINADE_E_INVALID when `host` is NULL or destroyed.
 *
 * Ownership, Threads, Streams, Context: as binade_free(). For the CPU the
 * block serves again when the work is over.
 */
BINADE_API BINADE_MUST_USE binade_status binade_host_free(binade_host *host,
                                                          void *address,
                                                          binade_stream stream);

/** The same for a caller who knows the size: as binade_free_sized(). */
BINADE_API BINADE_MUST_USE binade_status binade_host_free_sized(
    binade_host *host, void *address, size_t size_bytes, binade_stream stream);

/** Makes a block longer or shorter where it lies: as binade_resize(), with a
 *  message of its own when `host` is NULL. */
BINADE_API BINADE_MUST_USE binade_status binade_host_resize(
    binade_host *host, void *address, size_t size_bytes, binade_stream stream);

/** Frees every live block of an arena: as binade_free_all(), with a message of
 *  its own when `host` is NULL. */
BINADE_API BINADE_MUST_USE binade_status binade_host_free_all(
    binade_host *host, binade_stream stream, uint64_t *out_freed);

/**
 * The pool that an arena is: for binade_record_use(), binade_free_after(),
 * binade_stream_retire(), binade_pool_add_context(), binade_pool_stats() and
 * whatever else takes a pool. Addresses are the CPU's.
 *
 * @return The pool, or NULL when `host` is; of an arena that was destroyed, the
 *         handle of a pool that was.
 *
 * Ownership: the arena's: binade_pool_destroy() refuses it with
 *            BINADE_E_INVALID.
 * Threads:   any. Wait-free.
 * Streams, Context: none.
 */
BINADE_API binade_pool *binade_host_pool(const binade_host *host);

/**
 * Tells under which address the device has what the CPU has at `address`.
 *
 * @param host     The arena that it is from.
 * @param address  Anywhere in a block.
 * @param out      [out] The device's address. Written only when BINADE_OK is
 *                 returned.
 *
 * @return BINADE_OK
 * @return BINADE_E_INVALID  `host` or `out` is NULL, or the arena destroyed.
 * @return BINADE_E_FOREIGN  `address` is not the arena's.
 *
 * Ownership: none.
 * Threads:   any. Takes a lock for an instant.
 * Streams:   none.
 * Context:   none; the driver is not called.
 */
BINADE_API BINADE_MUST_USE binade_status binade_host_device_address(
    binade_host *host, const void *address, binade_devptr *out);

/**
 * Is called while an arena grows.
 *
 * @param user_data    As it was given.
 * @param done_bytes   Bytes that have memory, of
 * @param total_bytes  all that this call reserves.
 *
 * Threads: the one that called binade_host_reserve(). No lock is held. It may
 *          not use the arena.
 */
typedef void binade_host_progress_fn(void *user_data, uint64_t done_bytes,
                                     uint64_t total_bytes);

/**
 * Grows an arena before its memory is needed, until it has at least
 * `size_bytes` reserved.
 *
 * @param host          The arena.
 * @param size_bytes    Bytes that it shall have reserved, used or not. It is
 *                      rounded up to 2 MiB, never to a power of two.
 * @param thread_count  Threads that touch; 0: as many as the arena was made
 *                      with.
 * @param progress      NULL, or what is called as it goes on.
 * @param user_data     For `progress`.
 *
 * @return BINADE_OK
 * @return BINADE_E_INVALID    `host` is NULL or destroyed, or `thread_count`
 *         above 64.
 * @return BINADE_E_TOO_LARGE  More than the arena's limit, or than its nodes
 *         have when it is strict.
 * @return as binade_host_alloc(): what was reserved until then stays so.
 *
 * Ownership: none.
 * Threads:   any. Blocks in the kernel and in the driver.
 * Streams:   none.
 * Context:   any may be current.
 */
BINADE_API BINADE_MUST_USE binade_status binade_host_reserve(
    binade_host *host, uint64_t size_bytes, uint32_t thread_count,
    binade_host_progress_fn *progress, void *user_data);

/**
 * Unpins memory that nobody uses, as binade_pool_trim(): only what is done.
 * Unpinning stalls the launches of all threads while work is queued in the
 * process: for quiet moments.
 *
 * @return as binade_pool_trim(); BINADE_E_INVALID when `host` is NULL or
 *         destroyed.
 */
BINADE_API BINADE_MUST_USE binade_status binade_host_trim(binade_host *host,
                                                          uint64_t keep_bytes,
                                                          uint64_t *out_bytes);

/** The stages that new memory goes through: indices of stage_ns. */
enum {
    BINADE_HOST_STAGE_MAP = 0,
    BINADE_HOST_STAGE_BIND = 1,
    BINADE_HOST_STAGE_TOUCH = 2,
    BINADE_HOST_STAGE_REGISTER = 3,
    BINADE_HOST_STAGE_READ_BACK = 4,
    BINADE_HOST_STAGE_COUNT = 5
};

/** What kind of pages: indices of page_kind_bytes. */
enum {
    BINADE_HOST_PAGES_SMALL = 0,
    /** Small, and huge where the kernel found some: it does not say. */
    BINADE_HOST_PAGES_TRANSPARENT = 1,
    BINADE_HOST_PAGES_2MIB = 2,
    BINADE_HOST_PAGES_1GIB = 3,
    /** The driver's own, for write-combined memory. */
    BINADE_HOST_PAGES_DRIVER = 4,
    BINADE_HOST_PAGES_COUNT = 5
};

/** Where an arena's memory is, and what it took. */
typedef struct binade_host_stats {
    /** Bytes of this struct: set by the caller before the call. */
    uint32_t struct_size;
    /** BINADE_HOST_FELL_ bits: whatever ever happened to this arena. */
    uint32_t fallbacks;
    /** The nodes, as in the options. */
    uint64_t nodes[4];
    /** Pinned now: bytes, and stretches of them. */
    uint64_t pinned_bytes;
    uint64_t region_count;
    /** Of these, in the system's smallest pages: all; on the nodes; on others.
     *  What is missing, the kernel did not tell. As they were right after they
     *  had been pinned, since when they cannot have moved. */
    uint64_t pages_asked;
    uint64_t pages_near;
    uint64_t pages_elsewhere;
    /** Bytes of pinned_bytes by kind of page. */
    uint64_t page_kind_bytes[5];
    /** Nanoseconds ever spent, by stage. */
    uint64_t stage_ns[5];
    /** Most threads that ever touched at once. */
    uint32_t touch_threads;
    /** Failures of the driver to unpin that were left to be tried again. */
    uint32_t unreleased_count;
} binade_host_stats;

/**
 * Takes a snapshot.
 *
 * @param host  The arena.
 * @param out  [in,out] `struct_size` says how much the caller has room for and
 *             gets the bytes filled in.
 *
 * @return BINADE_OK
 * @return BINADE_E_INVALID  `host` or `out` is NULL, the arena destroyed, or
 *         `struct_size` less than that of version 0.1.0.
 *
 * Ownership: the caller's struct.
 * Threads:   any. Takes a lock for an instant.
 * Streams, Context: none.
 */
BINADE_API BINADE_MUST_USE binade_status
binade_host_stats_get(binade_host *host, binade_host_stats *out);

/**
 * Says in words where an arena is, why, and what it had to do without:
 * "node 1 (the nodes nearest to the device)".
 *
 * @param host        The arena.
 * @param out         [out] Text, ended by a 0, cut if there is no room.
 * @param size_bytes  Room in `out`; not 0.
 *
 * @return BINADE_OK
 * @return BINADE_E_INVALID  `host` or `out` is NULL, the arena destroyed, or
 *         `size_bytes` 0.
 *
 * Ownership: the caller's buffer.
 * Threads:   any. Takes a lock for an instant.
 * Streams, Context: none.
 */
BINADE_API BINADE_MUST_USE binade_status binade_host_report(binade_host *host,
                                                            char *out,
                                                            size_t size_bytes);

/* Forms of binade_host_topology(). */

/** Lines for people. */
#define BINADE_HOST_TOPOLOGY_TEXT UINT32_C(0)
/** One object, whose members docs/numa.md names. */
#define BINADE_HOST_TOPOLOGY_JSON UINT32_C(1)

/**
 * Describes the machine: its NUMA nodes, its GPUs, and which nodes' memory an
 * arena for each GPU would take. Without a driver, the nodes alone.
 *
 * @param format      BINADE_HOST_TOPOLOGY_TEXT or _JSON.
 * @param out         [out] Text, ended by a 0, cut if there is no room. NULL
 *                    where `size_bytes` is 0.
 * @param size_bytes  Room in `out`.
 * @param out_bytes   [out] NULL, or the bytes of the whole text without its 0.
 *
 * @return BINADE_OK
 * @return BINADE_E_INVALID  `format` is unknown, or `out` NULL although
 *         `size_bytes` is not 0.
 * @return BINADE_E_NO_HOST_MEMORY, BINADE_E_FORKED, or what the driver said
 *
 * Ownership: the caller's buffer.
 * Threads:   any. Calls the driver. The first call that needs the topology
 *            reads it, which takes milliseconds.
 * Streams:   none.
 * Context:   any may be current.
 */
BINADE_API BINADE_MUST_USE binade_status binade_host_topology(
    uint32_t format, char *out, size_t size_bytes, size_t *out_bytes);

/**
 * Pins memory of the caller's own, so that the device can copy from and to it
 * at full speed. The driver takes it to the byte: what shares a page with it may
 * be copied, and pinned, as if it did not. Ranges may overlap: each byte is pinned
 * as long as a range is that it is a part of.
 *
 * A range that overlaps one that is pinned is registered where that one is not,
 * and so in pieces unless it lies within it: the driver refuses a copy that begins
 * in one registration and ends outside of it (CUDA 13.0, an H100).
 *
 * @param address     Any address that the process may write to.
 * @param size_bytes  Bytes, not 0. The same range may be pinned several times.
 *
 * @return BINADE_OK
 * @return BINADE_E_INVALID  `address` is NULL, `size_bytes` 0, the range goes
 *         past the end of the address space, no context is current, or the
 *         driver says that the memory is not there.
 * @return BINADE_E_BUSY     Another caller of the driver has registered a part
 *         of it.
 * @return BINADE_E_NO_PINNED_MEMORY, BINADE_E_NO_HOST_MEMORY, BINADE_E_FORKED,
 *         or what the driver said: what this call had pinned is unpinned again.
 *
 * Ownership: the memory stays the caller's, who must not unmap it before it is
 *            unpinned.
 * Threads:   any. Blocks in the driver, with no lock held, and waits for calls
 *            of other threads for the same bytes.
 * Streams:   none.
 * Context:   the current one. All contexts can use what is pinned, as long as
 *            that one exists.
 */
BINADE_API BINADE_MUST_USE binade_status binade_host_pin(void *address,
                                                         size_t size_bytes);

/**
 * Takes back one binade_host_pin(). What no other range has is unpinned, at once
 * or later: binade_host_pin_keep().
 *
 * @param address, size_bytes  Exactly as they were pinned.
 *
 * @return BINADE_OK
 * @return BINADE_E_FOREIGN  This range is not pinned: nothing has changed.
 * @return BINADE_E_FORKED
 * @return what the driver said: the range is taken back, but its bytes stay
 *         pinned and are tried again by the next call.
 *
 * Ownership: the caller may unmap the memory, unless it is kept.
 * Threads:   any. The driver waits for all work that is queued, and the
 *            launches of all threads wait with it.
 * Streams:   work that is queued may use the memory until it is over.
 * Context:   any may be current.
 */
BINADE_API BINADE_MUST_USE binade_status binade_host_unpin(void *address,
                                                           size_t size_bytes);

/**
 * Lets memory stay pinned that no range has any more, the last unpinned longest,
 * so that pinning it again, or a part of it, costs nothing; what would cut a range
 * in two goes when that is pinned, as by binade_host_unpin(). With it the caller
 * promises that what it unpins stays mapped: memory that comes to the same address
 * later would be taken for pinned and is not.
 *
 * @param keep_bytes  Most bytes that stay so; 0, as at the beginning: none, and
 *                    what was kept is unpinned now.
 *
 * @return BINADE_OK
 * @return BINADE_E_FORKED, or what the driver said: as binade_host_unpin().
 *
 * Threads, Streams, Context: as binade_host_unpin().
 */
BINADE_API BINADE_MUST_USE binade_status
binade_host_pin_keep(uint64_t keep_bytes);

#if defined(CUDA_API_PER_THREAD_DEFAULT_STREAM)
#define binade_host_alloc(host, size, stream, out)                             \
    binade_host_alloc(host, size, binade_stream_of_caller(stream), out)
#define binade_host_try_alloc(host, size, stream, out)                         \
    binade_host_try_alloc(host, size, binade_stream_of_caller(stream), out)
#define binade_host_free(host, address, stream)                                \
    binade_host_free(host, address, binade_stream_of_caller(stream))
#define binade_host_free_sized(host, address, size, stream)                    \
    binade_host_free_sized(host, address, size, binade_stream_of_caller(stream))
#define binade_host_resize(host, address, size, stream)                        \
    binade_host_resize(host, address, size, binade_stream_of_caller(stream))
#define binade_host_free_all(host, stream, out)                                \
    binade_host_free_all(host, binade_stream_of_caller(stream), out)
#endif

#ifdef __cplusplus
}
#endif

#endif
