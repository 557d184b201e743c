/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Pinned host memory on the right NUMA node. An arena is a pool (moiety/pool.h)
 * over memory that was mapped, bound to a node, touched there by several
 * threads and registered with the driver; where its pages then are is read back
 * from the kernel and reported. docs/numa.md says what is guaranteed.
 *
 * An arena is one pool of one kind on one set of nodes: so no block ever moves
 * from one node to another by being reused. Its memory is visible to all
 * contexts of the process.
 *
 *     moiety_host *host;
 *     void *block;
 *     if (moiety_host_create(NULL, &host) != MOIETY_OK ||
 *         moiety_host_alloc(host, 1 << 20, MOIETY_HOST_CPU, &block) != MOIETY_OK)
 *         return fail(moiety_last_error_message());
 *     moiety_host_free(host, block, stream);
 *     moiety_host_destroy(host, NULL);
 *
 * moiety/pool.h has the rules that all functions have in common.
 */
#ifndef MOIETY_HOST_H_
#define MOIETY_HOST_H_

#include "moiety/pool.h"
#include "moiety/status.h"
#include "moiety/stream.h"
#include "moiety/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A host arena. */
typedef struct moiety_host moiety_host;
/** A growth of one, in a thread of its own. */
typedef struct moiety_growth moiety_growth;

/**
 * Named where a stream is named: memory that the CPU will write. No stream
 * orders the CPU, so such a block is served only when all work that used it is
 * over. The alternative is a stream, which says DEVICE_ORDERED: the CPU leaves
 * the block alone until work on that stream has filled it.
 */
#define MOIETY_HOST_CPU MOIETY_STREAM_ANY

/** Which nodes an arena's memory is to be on. Never renumbered. */
typedef enum moiety_host_policy {
    /** Those nearest to the device; all where the system does not know. */
    MOIETY_HOST_NEAREST = 0,
    /** That of the CPU which runs moiety_host_create(). */
    MOIETY_HOST_CALLER = 1,
    /** Those in `nodes`. */
    MOIETY_HOST_EXPLICIT = 2,
    /** Those in `nodes`, page by page in turn. */
    MOIETY_HOST_INTERLEAVE = 3
} moiety_host_policy;

/* How an arena behaves: bits of moiety_host_options.flags. */

/** A fallback, MOIETY_HOST_FELL_, is an error instead. */
#define MOIETY_HOST_STRICT (UINT32_C(1) << 0)
/** Written by the CPU past its caches, and slow to read by it. The driver
 *  allocates it: not with READ_ONLY or pages of a size. */
#define MOIETY_HOST_WRITE_COMBINED (UINT32_C(1) << 1)
/** The device only reads it. */
#define MOIETY_HOST_READ_ONLY (UINT32_C(1) << 2)
/** From the system's set-aside pages of 2 MiB or 1 GiB; not both. */
#define MOIETY_HOST_HUGE_2MIB (UINT32_C(1) << 3)
#define MOIETY_HOST_HUGE_1GIB (UINT32_C(1) << 4)
/** As MOIETY_POOL_REPORT_LEAKS. */
#define MOIETY_HOST_REPORT_LEAKS (UINT32_C(1) << 5)

/** The driver allocates the memory, where it would otherwise be registered: that is
 *  ten times slower, and works where the driver registers none. Not with READ_ONLY or
 *  pages of a size. */
#define MOIETY_HOST_BY_DRIVER (UINT32_C(1) << 6)

/* Wishes that an arena gave up: bits of moiety_host_stats.fallbacks. */

/** The system refused to bind memory: it is where the kernel put it. */
#define MOIETY_HOST_FELL_TO_UNBOUND (UINT32_C(1) << 0)
/** The nodes were full: some pages are on other nodes. */
#define MOIETY_HOST_FELL_ELSEWHERE (UINT32_C(1) << 1)
/** There were no pages of 1 GiB; none of 2 MiB either. */
#define MOIETY_HOST_FELL_TO_2MIB (UINT32_C(1) << 2)
#define MOIETY_HOST_FELL_TO_TRANSPARENT (UINT32_C(1) << 3)
/** Not all threads that should touch the memory could be started. */
#define MOIETY_HOST_FELL_TO_FEWER_THREADS (UINT32_C(1) << 4)
/** The kernel did not tell of all pages where they are. */
#define MOIETY_HOST_FELL_TO_UNVERIFIED (UINT32_C(1) << 5)
/** The process may not use the nodes next to the device, or it is unknown which
 *  they are; likewise for CALLER. Other nodes were chosen:
 *  moiety_host_report(). */
#define MOIETY_HOST_FELL_TO_OTHER_NODES (UINT32_C(1) << 6)
/** The driver registers no memory: it allocated the arena's itself, in pages of its
 *  own, which the device may write also where READ_ONLY was asked for. */
#define MOIETY_HOST_FELL_TO_DRIVER (UINT32_C(1) << 7)

/** How an arena is made. 0 is the default of every field but the first. */
typedef struct moiety_host_options {
    /** Bytes of this struct. */
    uint32_t struct_size;
    /** MOIETY_HOST_ bits. */
    uint32_t flags;
    /** A moiety_host_policy. */
    uint32_t policy;
    /** Ordinal of the device that the memory is to be near to and whose
     *  primary context the arena uses and keeps alive. */
    int32_t device;
    /** NULL, or the context to use, which must outlive the arena; it must be
     *  one of `device`. */
    moiety_context context;
    /** Bit i of word i / 64: the node with the system's number i. For EXPLICIT
     *  and INTERLEAVE; 0 otherwise. */
    uint64_t nodes[4];
    /** Most that the arena ever reserves, from 2 MiB on; 0: as much as there is. */
    uint64_t limit_bytes;
    /** As in moiety_pool_options, but the largest that blocks share has 64 MiB if
     *  this is 0, eight times max_block_bytes, or first_segment_bytes, whichever is
     *  most; and 1 GiB with HUGE_1GIB. The first is the first piece of a reserve,
     *  too. */
    uint64_t first_segment_bytes;
    uint64_t largest_segment_bytes;
    uint64_t thread_cache_bytes;
    /** Threads that touch new memory; 0: one for each CPU of the nodes, 8 at
     *  most. Up to 64. */
    uint32_t touch_threads;
    /** As in moiety_pool_options. */
    uint32_t wait_ms;
    /** The longest block that memory of moiety_host_reserve() is for; 0: 8 MiB, or an
     *  eighth of largest_segment_bytes if that is less. Longer ones may find no room
     *  in it, and have a registration of their own. At most the limit, and an eighth
     *  of largest_segment_bytes where that is named. */
    uint64_t max_block_bytes;
    /** Milliseconds that one registration of moiety_host_reserve() shall take, as
     *  measured with the last ones: others wait for the driver meanwhile. Pieces have
     *  max_block_bytes at least. 0: 4. Up to 60000. */
    uint32_t stall_ms;
    /** 0. */
    uint32_t unused;
} moiety_host_options;

/** Every field at its default. */
#ifdef __cplusplus
#define MOIETY_HOST_OPTIONS_INIT                                               \
    {                                                                          \
        (uint32_t)sizeof(moiety_host_options), 0, MOIETY_HOST_NEAREST, 0,      \
            NULL, {0, 0, 0, 0}, 0, 0, 0, 0, 0, 0, 0, 0, 0                      \
    }
#else
#define MOIETY_HOST_OPTIONS_INIT                                               \
    {                                                                          \
        .struct_size = (uint32_t)sizeof(moiety_host_options)                   \
    }
#endif

/**
 * Makes an arena. No memory is reserved before the first allocation.
 *
 * The environment variable MOIETY_CONF (moiety/pool.h) goes over the options by
 * the keys host_place (nearest, caller, nodes as 0+2-3, or interleave=0+2-3),
 * host_strict (0 or 1), host_huge (0, 2M or 1G), host_limit (bytes), host_threads,
 * host_stall_ms and host_max_block (bytes). Its other keys are not for arenas.
 *
 * @param options  NULL for the defaults.
 * @param out      [out] The arena.
 *
 * @return MOIETY_E_INVALID  `out` is NULL; a field is out of range; two flags
 *         exclude each other; a node does not exist or is not allowed to this
 *         process; the limit is beyond what a strict arena's nodes have;
 *         max_block_bytes is above the limit or an eighth of
 *         largest_segment_bytes.
 * @return MOIETY_E_UNSUPPORTED  STRICT, and it is not known where the device is, or
 *         the topology is not this machine's (HWLOC_XMLFILE, HWLOC_SYNTHETIC).
 * @return MOIETY_E_NO_HOST_MEMORY
 * @return what moiety_pool_create() returns
 *
 * Ownership: the caller's, to be destroyed by moiety_host_destroy().
 * Threads:   any. Calls the driver; may block. The first of the process reads
 *            the machine's topology, which takes milliseconds.
 */
MOIETY_API MOIETY_MUST_USE moiety_status
moiety_host_create(const moiety_host_options *options, moiety_host **out);

/**
 * Destroys an arena and unpins its memory, also what was never freed: as
 * moiety_pool_destroy(). Its pool ends with it. Both handles stay recognisable:
 * later calls with them return MOIETY_E_INVALID.
 *
 * @param host       NULL does nothing.
 * @param out_leaks  [out] As moiety_pool_destroy().
 *
 * @return as moiety_pool_destroy(); MOIETY_E_IN_USE also while a thread is in
 *         moiety_host_reserve().
 *
 * Ownership: ends, unless a refusal of moiety_pool_destroy() is returned. Less than 512 bytes stay
 *            behind for each arena and its pool.
 * Threads:   one; no other call on this arena may be under way. Unpinning
 *            stalls the launches of all threads of the process.
 * Streams:   work that is queued on any of them is waited for.
 */
MOIETY_API moiety_status moiety_host_destroy(moiety_host *host,
                                             moiety_leaks *out_leaks);

/** moiety_pool_destroy_later() of an arena. */
MOIETY_API moiety_status moiety_host_destroy_later(moiety_host *host);

/**
 * Takes `size_bytes` of pinned memory.
 *
 * @param size_bytes  Bytes wanted, rounded as moiety_alloc() does.
 * @param stream      MOIETY_HOST_CPU, or DEVICE_ORDERED: the stream whose work
 *                    will write the block before the CPU looks at it. 0 is a
 *                    stream, the legacy one.
 * @param out         [out] Its address for the CPU. Aligned as moiety_alloc()
 *                    aligns.
 *
 * @return as moiety_alloc(); MOIETY_E_INVALID when `host` is NULL.
 *
 * Ownership: the caller's until it is freed into the same arena.
 * Threads:   as moiety_alloc(). Growing happens outside any lock and blocks:
 *            in the kernel, while pages are cleared, and in the driver.
 * Streams:   with MOIETY_HOST_CPU nothing is pending on the block. With a
 *            stream, work that is on it already may still be using it.
 */
MOIETY_API MOIETY_MUST_USE moiety_status moiety_host_alloc(moiety_host *host,
                                                           size_t size_bytes,
                                                           moiety_stream stream,
                                                           void **out);

/** The same in the way that `options` say: as moiety_alloc_with(). `host` may not be
 *  NULL; a tenant or an arena that is named is one of moiety_host_pool(). */
MOIETY_API MOIETY_MUST_USE moiety_status moiety_host_alloc_with(
    moiety_host *host, size_t size_bytes, moiety_stream stream,
    const moiety_alloc_options *options, void **out);

/**
 * Gives a block back, as moiety_free().
 *
 * @param host     The arena that it is from.
 * @param address  As it was allocated; NULL does nothing.
 * @param stream   The stream whose queued work uses it last; MOIETY_STREAM_DONE
 *                 when no work is pending; MOIETY_STREAM_ANY when no stream can
 *                 be named.
 *
 * @return as moiety_free(); MOIETY_E_INVALID when `host` is NULL.
 *
 * Ownership, Threads, Streams, Context: as moiety_free(). For the CPU the
 * block serves again when the work is over.
 */
MOIETY_API moiety_status moiety_host_free(moiety_host *host, void *address,
                                          moiety_stream stream);

/** The same for a caller who knows the size: as moiety_free_sized(). */
MOIETY_API moiety_status moiety_host_free_sized(moiety_host *host,
                                                void *address,
                                                size_t size_bytes,
                                                moiety_stream stream);

/** Makes a block longer or shorter where it lies: as moiety_resize(), with a
 *  message of its own when `host` is NULL. */
MOIETY_API MOIETY_MUST_USE moiety_status moiety_host_resize(
    moiety_host *host, void *address, size_t size_bytes, moiety_stream stream);

/** Frees every live block of an arena: as moiety_free_all(), with a message of
 *  its own when `host` is NULL. */
MOIETY_API moiety_status moiety_host_free_all(moiety_host *host,
                                              moiety_stream stream,
                                              uint64_t *out_freed);

/**
 * The pool that an arena is: for moiety_record_use(), moiety_free_on_event(),
 * moiety_pool_retire_stream(), moiety_pool_add_context(), moiety_pool_get_stats() and
 * whatever else takes a pool. Addresses are the CPU's.
 *
 * @return The pool, or NULL when `host` is; of an arena that was destroyed, the
 *         handle of a pool that was.
 *
 * Ownership: the arena's: moiety_pool_destroy() refuses it with
 *            MOIETY_E_INVALID.
 * Threads:   Wait-free.
 */
MOIETY_API moiety_pool *moiety_host_pool(const moiety_host *host);

/**
 * Tells under which address the device has what the CPU has at `address`.
 *
 * @param host     The arena that it is from.
 * @param address  Anywhere in a block.
 * @param out      [out] The device's address.
 *
 * @return MOIETY_E_INVALID  `host` or `out` is NULL.
 * @return MOIETY_E_FOREIGN  `address` is not the arena's.
 *
 * Threads:   Takes a lock for an instant. No driver call.
 */
MOIETY_API MOIETY_MUST_USE moiety_status moiety_host_device_address(
    moiety_host *host, const void *address, moiety_devptr *out);

/**
 * Is called while an arena grows: when a piece is pinned, and at least every 20 ms
 * while the call waits, then with the same number again.
 *
 * @param user_data    As it was given.
 * @param done_bytes   Bytes that this call has pinned, or, of memory that is not
 *                     touched ahead, that have their pages; of
 * @param total_bytes  all that this call reserves.
 *
 * Threads: the one that called moiety_host_reserve(). No lock is held. Of the arena
 *          it may use moiety_host_cancel() alone.
 */
typedef void moiety_host_progress_fn(void *user_data, uint64_t done_bytes,
                                     uint64_t total_bytes);

/**
 * Grows an arena before its memory is needed, until it has at least
 * `size_bytes` reserved. It is pinned piece by piece, while threads touch the next
 * pieces: 2, 4, 8 MiB and so on to largest_segment_bytes, or as much as is pinned in
 * stall_ms. Pinned pieces can be used at once, also by other threads. Others have
 * the driver for 200 us between two pieces. Processes of a user take turns: by a lock
 * of a file in $MOIETY_LOCK_DIR, /run/user/UID or /tmp, as long as that moves on.
 *
 * @param size_bytes    Bytes that it shall have reserved, used or not. It is
 *                      rounded up to 2 MiB, never to a power of two.
 * @param thread_count  Threads that touch; 0: as many as the arena was made
 *                      with.
 * @param progress      NULL, or what is called as it goes on.
 * @param user_data     For `progress`.
 *
 * @return MOIETY_E_INVALID    `host` is NULL, or `thread_count` above 64.
 * @return MOIETY_E_TOO_LARGE  More than the arena's limit, or than its nodes
 *         have when it is strict.
 * @return MOIETY_E_NO_PINNED_MEMORY  There is no room for all of it now: no page was
 *         touched; or there was none any more: what was reserved until then stays so.
 * @return MOIETY_E_INTERRUPTED  By moiety_host_cancel(), or the function of
 *         moiety_set_interrupt(): likewise.
 * @return as moiety_host_alloc(): likewise.
 *
 * Threads:   Blocks in the kernel and in the driver. No thread of it is left.
 */
MOIETY_API MOIETY_MUST_USE moiety_status moiety_host_reserve(
    moiety_host *host, uint64_t size_bytes, uint32_t thread_count,
    moiety_host_progress_fn *progress, void *user_data);

/**
 * Begins the same in a thread of its own, and returns at once. It ends by itself, by
 * moiety_growth_cancel(), moiety_host_cancel(), or by moiety_host_trim() or
 * moiety_host_destroy(), also if they refuse. The latter waits until the piece is
 * pinned that it is at.
 *
 * @param size_bytes    As for moiety_host_reserve().
 * @param thread_count  As for moiety_host_reserve().
 * @param out           [out] The growth. Written only when MOIETY_OK is returned.
 *
 * @return MOIETY_E_INVALID    `host` or `out` is NULL, or `thread_count` above 64.
 * @return MOIETY_E_TOO_LARGE  As moiety_host_reserve().
 * @return MOIETY_E_NO_HOST_MEMORY  There is no memory, no thread or no descriptor.
 *
 * Ownership: the growth is the caller's until moiety_growth_destroy(), also after the
 *            arena's end.
 * Threads:   Never waits. Signals are blocked in the thread that it starts.
 */
MOIETY_API MOIETY_MUST_USE moiety_status
moiety_host_reserve_async(moiety_host *host, uint64_t size_bytes,
                          uint32_t thread_count, moiety_growth **out);

/**
 * Waits for the end of a growth.
 *
 * @param growth      Of moiety_host_reserve_async().
 * @param timeout_ms  Milliseconds to wait at most; 0: only ask.
 *
 * @return MOIETY_E_INVALID      `growth` is NULL.
 * @return MOIETY_E_TIMEOUT      It goes on.
 * @return MOIETY_E_INTERRUPTED  It was cancelled; or the function of
 *         moiety_set_interrupt() ended this wait, and the growth goes on.
 * @return any other of moiety_host_reserve(), if that is how it ended.
 *
 * Threads:   any, also several at once.
 */
MOIETY_API MOIETY_MUST_USE moiety_status
moiety_growth_wait(moiety_growth *growth, uint32_t timeout_ms);

/**
 * @return The bytes that the growth has pinned until now, which can be used; 0 for
 *         NULL.
 *
 * Threads:   Wait-free.
 */
MOIETY_API uint64_t moiety_growth_ready_bytes(const moiety_growth *growth);

/**
 * @return A descriptor that poll(), select() and epoll find readable from the end of
 *         the growth on; -1 for NULL. It is not to be read or closed.
 *
 * Ownership: the growth's.
 * Threads:   Wait-free.
 */
MOIETY_API int moiety_growth_descriptor(const moiety_growth *growth);

/**
 * Ends a growth when the piece is pinned that it is at; what it has pinned stays.
 * NULL, or a growth that is over, does nothing.
 *
 * Threads:   Wait-free. Also of a signal handler.
 */
MOIETY_API void moiety_growth_cancel(moiety_growth *growth);

/**
 * Cancels a growth and gives its handle up: its thread ends when the piece is pinned
 * that it is at, for which moiety_host_destroy() waits. No other call may use it any
 * more.
 *
 * @param growth  NULL does nothing.
 *
 * @return MOIETY_E_FORKED  In a child of a fork.
 *
 * Ownership: ends.
 * Threads:   any. Never waits.
 */
MOIETY_API moiety_status moiety_growth_destroy(moiety_growth *growth);

/**
 * Stops what pins memory for an arena now: moiety_host_reserve(), growths, and
 * allocations that grow it. They end when the piece is pinned that they are at, and return
 * MOIETY_E_INTERRUPTED unless they were through; what they had pinned stays. Later
 * calls are as ever. Touching pages of 1 GiB is stopped between two of them, and the
 * driver's own allocation (WRITE_COMBINED) not at all.
 *
 * @param host  NULL, or an arena that was destroyed, does nothing.
 *
 * Threads:   Wait-free. Also of a signal handler, and of a progress function.
 * Streams, Context: none.
 */
MOIETY_API void moiety_host_cancel(moiety_host *host);

/**
 * Unpins memory that nobody uses, as moiety_pool_trim(): only what is done.
 * Unpinning stalls the launches of all threads while work is queued in the
 * process: for quiet moments. Growths of moiety_host_reserve_async() are cancelled
 * first, also if it is refused.
 *
 * @return as moiety_pool_trim(); MOIETY_E_INVALID when `host` is NULL.
 */
MOIETY_API moiety_status moiety_host_trim(moiety_host *host,
                                          uint64_t keep_bytes,
                                          uint64_t *out_bytes);

/**
 * Lets children of a fork have the arena's memory, what is there and what will be.
 * Otherwise they do not: an access is a SIGSEGV, and a fork takes no time for it.
 * With it, a fork copies all of the arena's memory at once, half a second for each
 * GiB, as the kernel does with pinned pages, and the child owns the copy. There is
 * no way back. Memory that the driver allocates (WRITE_COMBINED) stays as the
 * driver made it.
 *
 * @return MOIETY_E_INVALID  `host` is NULL.
 *
 * Threads:   Blocks in the kernel for an instant.
 */
MOIETY_API MOIETY_MUST_USE moiety_status
moiety_host_copy_to_children(moiety_host *host);

/** The stages that new memory goes through: indices of stage_ns. */
enum {
    MOIETY_HOST_STAGE_MAP = 0,
    MOIETY_HOST_STAGE_BIND = 1,
    MOIETY_HOST_STAGE_TOUCH = 2,
    MOIETY_HOST_STAGE_REGISTER = 3,
    MOIETY_HOST_STAGE_READ_BACK = 4,
    MOIETY_HOST_STAGE_COUNT = 5
};

/** Kinds of pages: indices of page_kind_bytes. */
enum {
    MOIETY_HOST_PAGES_SMALL = 0,
    /** Small, and huge where the kernel found some: it does not say. */
    MOIETY_HOST_PAGES_TRANSPARENT = 1,
    MOIETY_HOST_PAGES_2MIB = 2,
    MOIETY_HOST_PAGES_1GIB = 3,
    /** The driver's own, for write-combined memory. */
    MOIETY_HOST_PAGES_DRIVER = 4,
    MOIETY_HOST_PAGES_COUNT = 5
};

/** The place of an arena's memory, and the cost of pinning it. */
typedef struct moiety_host_stats {
    /** Bytes of this struct: set by the caller before the call. */
    uint32_t struct_size;
    /** MOIETY_HOST_FELL_ bits: whatever ever happened to this arena. */
    uint32_t fallbacks;
    /** The nodes, as in the options. */
    uint64_t nodes[4];
    /** Pinned now: bytes, and stretches of them. */
    uint64_t pinned_bytes;
    uint64_t region_count;
    /** Of these, in the system's smallest pages: all; on the nodes; on others.
     *  The kernel did not report the missing ones. As they were right after they
     *  had been pinned, since when they cannot have moved. Of what
     *  moiety_host_reserve() pins, one page in 64 is looked at, and counts for 64,
     *  unless the arena is strict or one of them is not near. */
    uint64_t pages_asked;
    uint64_t pages_near;
    uint64_t pages_elsewhere;
    /** Bytes of pinned_bytes by kind of page. */
    uint64_t page_kind_bytes[5];
    /** Nanoseconds ever spent, by stage; of pages that are touched ahead, those that
     *  moiety_host_reserve() waited for them. */
    uint64_t stage_ns[5];
    /** Most threads that ever touched at once. */
    uint32_t touch_threads;
    /** Failures of the driver to unpin that were left to be tried again. */
    uint32_t unreleased_count;
} moiety_host_stats;

/**
 * Takes a snapshot.
 *
 * @param out  [in,out] `struct_size` says how much the caller has room for and
 *             gets the bytes filled in.
 *
 * @return MOIETY_E_INVALID  `host` or `out` is NULL, or `struct_size` less than
 *         that of version 0.1.0.
 *
 * Threads:   Takes a lock for an instant.
 */
MOIETY_API MOIETY_MUST_USE moiety_status
moiety_host_get_stats(moiety_host *host, moiety_host_stats *out);

/**
 * Says in words where an arena is, why, and what it had to do without:
 * "node 1 (the nodes nearest to the device)".
 *
 * @param out         [out] Text, ended by a 0, cut if there is no room.
 * @param size_bytes  Room in `out`; not 0.
 *
 * @return MOIETY_E_INVALID  `host` or `out` is NULL, or `size_bytes` 0.
 *
 * Threads:   Takes a lock for an instant.
 */
MOIETY_API MOIETY_MUST_USE moiety_status moiety_host_report(moiety_host *host,
                                                            char *out,
                                                            size_t size_bytes);

/* Forms of moiety_host_topology(). */

/** Lines for people. */
#define MOIETY_HOST_TOPOLOGY_TEXT UINT32_C(0)
/** One object, whose members docs/numa.md names. */
#define MOIETY_HOST_TOPOLOGY_JSON UINT32_C(1)

/**
 * Describes the machine: its NUMA nodes, its GPUs, and which nodes' memory an
 * arena for each GPU would take. Without a driver, the nodes alone.
 *
 * @param format      MOIETY_HOST_TOPOLOGY_TEXT or _JSON.
 * @param out         [out] Text, ended by a 0, cut if there is no room. NULL
 *                    where `size_bytes` is 0.
 * @param size_bytes  Room in `out`.
 * @param out_bytes   [out] NULL, or the bytes of the whole text without its 0.
 *
 * @return MOIETY_E_INVALID  `format` is unknown, or `out` NULL although
 *         `size_bytes` is not 0.
 * @return MOIETY_E_NO_HOST_MEMORY, MOIETY_E_FORKED, or what the driver said
 *
 * Threads:   Calls the driver. The first call that needs the topology reads it,
 *            which takes milliseconds.
 */
MOIETY_API MOIETY_MUST_USE moiety_status moiety_host_topology(
    uint32_t format, char *out, size_t size_bytes, size_t *out_bytes);

/**
 * Pins memory of the caller's own, so that the device can copy from and to it
 * at full speed. The driver takes it to the byte: what shares a page with it may
 * be copied, and pinned, as if it did not. Ranges may overlap: each byte is pinned
 * as long as a range is that it is a part of.
 *
 * As long as a range is pinned, the child of a fork does not have those of its
 * pages that lie wholly in it, if they are private memory (MAP_PRIVATE): it may
 * neither access such a range nor free it (SIGSEGV). Otherwise the fork would copy
 * all of it at once. Where /proc cannot be read, the child has the pages. Pinning
 * is madvise(MADV_DONTFORK) and unpinning MADV_DOFORK: a caller who keeps the
 * memory from children anyway gives that advice again after moiety_host_unpin().
 *
 * A range that overlaps one that is pinned is registered where that one is not,
 * and so in pieces unless it lies within it: the driver refuses a copy that begins
 * in one registration and ends outside of it (CUDA 13.0, an H100).
 *
 * @param address     Any address that the process may write to.
 * @param size_bytes  Bytes, not 0. The same range may be pinned several times.
 *
 * @return MOIETY_E_INVALID  `address` is NULL, `size_bytes` 0, the range goes
 *         past the end of the address space, no context is current, or the
 *         driver says that the memory is not there.
 * @return MOIETY_E_IN_USE   Another caller of the driver has registered a part
 *         of it.
 * @return MOIETY_E_NO_PINNED_MEMORY, MOIETY_E_NO_HOST_MEMORY, MOIETY_E_FORKED,
 *         or what the driver said: what this call had pinned is unpinned again.
 *
 * Ownership: the memory stays the caller's, who must not unmap it before it is
 *            unpinned.
 * Threads:   Blocks in the driver, with no lock held, and waits for calls of
 *            other threads for the same bytes.
 * Context:   the current one. All contexts can use what is pinned, as long as
 *            that one exists.
 */
MOIETY_API MOIETY_MUST_USE moiety_status moiety_host_pin(void *address,
                                                         size_t size_bytes);

/**
 * Takes back one moiety_host_pin(). What no other range has is unpinned, at once
 * or later: moiety_host_pin_keep().
 *
 * @param address, size_bytes  Exactly as they were pinned.
 *
 * @return MOIETY_E_FOREIGN  This range is not pinned: nothing has changed.
 * @return what the driver said: the range is taken back, but its bytes stay
 *         pinned and are tried again by the next call.
 *
 * Ownership: the caller may unmap the memory, unless it is kept.
 * Threads:   The driver waits for all work that is queued, and the launches of
 *            all threads wait with it.
 * Streams:   work that is queued may use the memory until it is over.
 */
MOIETY_API moiety_status moiety_host_unpin(void *address, size_t size_bytes);

/**
 * Lets memory stay pinned that no range has any more, the last unpinned longest,
 * so that pinning it again, or a part of it, costs nothing; what would cut a range
 * in two goes when that is pinned, as by moiety_host_unpin(). With it the caller
 * promises that what it unpins stays mapped: memory that comes to the same address
 * later would be taken for pinned and is not.
 *
 * @param keep_bytes  Most bytes that stay so; 0, as at the beginning: none, and
 *                    what was kept is unpinned now.
 *
 * @return MOIETY_E_FORKED, or what the driver said: as moiety_host_unpin().
 *
 * Threads, Streams, Context: as moiety_host_unpin().
 */
MOIETY_API MOIETY_MUST_USE moiety_status
moiety_host_pin_keep(uint64_t keep_bytes);

#if defined(CUDA_API_PER_THREAD_DEFAULT_STREAM)
#define moiety_host_alloc(host, size, stream, out)                             \
    moiety_host_alloc(host, size, moiety_stream_of_caller(stream), out)
#define moiety_host_alloc_with(host, size, stream, options, out)               \
    moiety_host_alloc_with(host, size, moiety_stream_of_caller(stream),        \
                           options, out)
#define moiety_host_free(host, address, stream)                                \
    moiety_host_free(host, address, moiety_stream_of_caller(stream))
#define moiety_host_free_sized(host, address, size, stream)                    \
    moiety_host_free_sized(host, address, size, moiety_stream_of_caller(stream))
#define moiety_host_resize(host, address, size, stream)                        \
    moiety_host_resize(host, address, size, moiety_stream_of_caller(stream))
#define moiety_host_free_all(host, stream, out)                                \
    moiety_host_free_all(host, moiety_stream_of_caller(stream), out)
#endif

#ifdef __cplusplus
}
#endif

#endif
