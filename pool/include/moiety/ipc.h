/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Blocks shared between processes: of one machine, and of mapped memory also of
 * others that the devices' fabric reaches. The owner makes a handle of
 * any address inside a block and sends its bytes by whatever means; another
 * process turns them into an address of its own. docs/ipc.md has the contract:
 * who may use what when, and what an importer can see beside the block.
 *
 * There is no channel between the two but the program's own. The process that
 * closes an import learns when its work is over; only the program can tell the
 * owner.
 *
 * moiety/pool.h has the rules that all functions have in common.
 */
#ifndef MOIETY_IPC_H_
#define MOIETY_IPC_H_

#include <stddef.h>
#include <stdint.h>

#include "moiety/status.h"
#include "moiety/stream.h"
#include "moiety/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/** The layout below. */
#define MOIETY_IPC_VERSION UINT32_C(1)

/** Segments that a process keeps open, although all imports of them are closed,
 *  when it opens another. */
#define MOIETY_IPC_IDLE_MAX 64U

/** The kinds of handles: of memory that it opens, or memory that is mapped
 *  (MOIETY_MEMORY_MAPPED), for which it is a ticket: moiety_ipc_ticket(). */
#define MOIETY_IPC_DRIVER UINT32_C(0)
#define MOIETY_IPC_MAPPED UINT32_C(1)

/**
 * The name of a block, or of its rest, for other processes: 176 bytes without
 * padding, to be copied as they are. All but the last field is for a program
 * that wants to look; a handle that was changed is refused. The checksum finds
 * accidents, not forgers: take handles from peers that you trust.
 */
typedef struct moiety_ipc_handle {
    /** MOIETY_IPC_VERSION. */
    uint32_t version;
    /** Bytes of this struct. */
    uint32_t struct_size;
    /** The driver's own, of the whole segment (CUipcMemHandle). Of memory that
     *  is mapped: which pieces of the exporter's it is; it does not open them.
     *  */
    uint8_t driver_handle[64];
    /** Bytes of the segment, and in it the first byte of what was exported and
     *  the bytes from there to the end of its block. */
    uint64_t segment_bytes;
    uint64_t offset_bytes;
    uint64_t size_bytes;
    /** The device that has the memory (cuDeviceGetUuid). */
    uint8_t device_uuid[16];
    /** The exporter: the machine's boot id, the number of the pid namespace,
     *  its start in clock ticks since the boot, its pid in that namespace. */
    uint8_t machine[16];
    uint64_t pid_namespace;
    uint64_t start_ticks;
    uint32_t pid;
    /** MOIETY_IPC_DRIVER or MOIETY_IPC_MAPPED. */
    uint32_t kind;
    /** The segment: never used again by the exporter. */
    uint64_t segment_id;
    /** Which of the segment's exports; moiety_ipc_release_exports() ends one
     *  and so makes its handles stale. Later ones have larger numbers. */
    uint64_t generation;
    /** Of all of the above. */
    uint64_t checksum;
} moiety_ipc_handle;

/**
 * Makes a handle of an address. The first handle of a segment asks the driver;
 * later ones are put together from what is known.
 *
 * A block that was exported stays out of circulation when it is freed, until
 * moiety_ipc_release_exports(): peers may still use it. Meanwhile it counts as
 * in use. moiety_free_on_event() refuses it with MOIETY_E_IN_USE.
 *
 * @param pool     A pool with MOIETY_POOL_EXPORTABLE.
 * @param address  Anywhere in a live block of it.
 * @param out      [out] Written only when MOIETY_OK is returned.
 *
 * @return MOIETY_E_INVALID      `pool` or `out` is NULL, or `address` in no
 *         block. A freed block is recognised where moiety_free() recognises it.
 * @return MOIETY_E_FOREIGN      `address` is not the pool's.
 * @return MOIETY_E_UNSUPPORTED  The pool is not exportable; its memory is mapped
 *         (moiety_ipc_send()); or its source cut the segment out of a larger
 *         piece of the driver's.
 * @return MOIETY_E_NO_HOST_MEMORY, or what the driver said
 *
 * Ownership: the block stays the caller's, and should live until the last peer
 *            has closed it. The pool keeps the segment until the exports are
 *            released or the pool is destroyed.
 * Threads:   any, but not at the same time as the block's free. Takes a lock
 *            for an instant; the first of a segment calls the driver.
 * Streams:   what the peer is to see must be over, or ordered by the program's
 *            own means (an event that it shares).
 */
MOIETY_API MOIETY_MUST_USE moiety_status moiety_ipc_export(
    moiety_pool *pool, moiety_devptr address, moiety_ipc_handle *out);

/**
 * Sends a block, of any exportable pool, to the process at the other end of a
 * socket, which takes it by moiety_ipc_receive(). Of mapped memory
 * (MOIETY_MEMORY_MAPPED) the pieces that the block is in travel with it, as file
 * descriptors: about a millisecond of the driver for each. Through a socket that
 * carries none, as of TCP, they travel as fabric handles, to whatever machine the
 * devices' fabric reaches. A process that has received them imports further
 * addresses in them by moiety_ipc_ticket() and moiety_ipc_import(). Other memory
 * travels as its handle, which is good for the same machine.
 *
 * A sent block counts as exported, as by moiety_ipc_export(): mapped pieces of
 * it neither move nor go until moiety_ipc_release_exports(), also where the call
 * failed halfway, as the peer may have got them.
 *
 * @param pool     A pool with MOIETY_POOL_EXPORTABLE.
 * @param address  Anywhere in a live block of it.
 * @param socket   A connected UNIX socket, of SOCK_STREAM or SOCK_SEQPACKET; or
 *                 one of another domain, of SOCK_STREAM. One thread at a time
 *                 sends on it.
 *
 * @return MOIETY_OK             All is on its way.
 * @return MOIETY_E_INVALID      `pool` is NULL, `address` in no block, or
 *         `socket` no such socket.
 * @return MOIETY_E_FOREIGN      `address` is not the pool's.
 * @return MOIETY_E_UNSUPPORTED  As for moiety_ipc_export(), but for mapped
 *         memory; there, through a socket that is no UNIX one: the device has no
 *         fabric handles, or there is no IMEX channel that this user may open.
 *         Nothing was sent, and nothing counts as exported.
 * @return MOIETY_E_WOULD_BLOCK  The socket does not block, and takes nothing now:
 *         nothing was sent.
 * @return MOIETY_E_TIMEOUT      The socket's time limit was over: nothing was sent.
 *         Or the peer reads nothing for ten seconds in the middle of a message:
 *         close the socket.
 * @return MOIETY_E_PEER_GONE    The peer has closed its end, or is out of reach.
 * @return MOIETY_E_NO_HOST_MEMORY  Also for file descriptors.
 * @return what the driver said
 *
 * Ownership: as for moiety_ipc_export(). Descriptors that it makes are closed
 *            when it returns.
 * Threads:   any, but not at the same time as the block's free. Calls the driver,
 *            and waits for the peer where the socket's buffer is full.
 * Streams:   as for moiety_ipc_export().
 */
MOIETY_API MOIETY_MUST_USE moiety_status moiety_ipc_send(moiety_pool *pool,
                                                         moiety_devptr address,
                                                         int socket);

/**
 * Makes a handle for a peer that has the memory, which is the same as
 * moiety_ipc_export() but for mapped memory: there moiety_ipc_import() accepts it
 * only where all pieces of the block were received together before and not given
 * back since, and says MOIETY_E_STALE otherwise; then moiety_ipc_send() is due.
 *
 * @param pool     A pool with MOIETY_POOL_EXPORTABLE.
 * @param address  Anywhere in a live block of it.
 * @param out      [out] Written only when MOIETY_OK is returned.
 *
 * @return as moiety_ipc_export(), but for mapped memory no MOIETY_E_UNSUPPORTED
 *
 * Ownership: as for moiety_ipc_export().
 * Threads:   the same. Of mapped memory it calls no driver.
 * Streams:   the same.
 */
MOIETY_API MOIETY_MUST_USE moiety_status moiety_ipc_ticket(
    moiety_pool *pool, moiety_devptr address, moiety_ipc_handle *out);

/**
 * Ends exports: the program knows that no peer has the memory any more, neither
 * imported nor kept open (moiety_ipc_trim()). Handles made before are stale, the
 * segment may be trimmed, and what was freed meanwhile comes back into
 * circulation, behind all work that the pool's contexts have now.
 *
 * @param address  Anywhere in the segment to release; 0: all of them.
 *
 * @return MOIETY_OK         Also when there was nothing to release.
 * @return MOIETY_E_INVALID  `pool` is NULL.
 * @return MOIETY_E_FOREIGN  `address` is not the pool's.
 * @return MOIETY_E_IN_USE   This very process has imported from it and not yet
 *         closed: nothing was released.
 * @return MOIETY_E_NO_HOST_MEMORY, or what the driver said  when a freed block
 *         could not be brought back: it and the exports stay; call again.
 *
 * Threads:   any; a handle that is made at the same time may be stale at once.
 *            Takes a lock for an instant; may call the driver.
 * Streams:   an event is recorded in the pool's contexts for what was freed.
 */
MOIETY_API moiety_status moiety_ipc_release_exports(moiety_pool *pool,
                                                    moiety_devptr address);

/**
 * Turns a handle into an address. Each segment is opened once in this process
 * and context, however many of its blocks are imported, and stays open for the
 * next import when the last one is closed. A handle that this very process
 * made gives the block's own address.
 *
 * @param handle        The bytes, at any alignment.
 * @param handle_bytes  How many there are: sizeof(moiety_ipc_handle).
 * @param context       The context that is to use the memory, on the device
 *                      that has it or on a peer of that; it must live until all
 *                      is closed, a primary one be retained. NULL: the calling
 *                      thread's current one; where none is, the primary one of
 *                      the device that has the memory, which is retained until
 *                      the segment goes back to the driver
 *                      (moiety_ipc_trim()).
 * @param out           [out] The address.
 *
 * @return MOIETY_E_INVALID      `handle` or `out` is NULL, `handle_bytes` is
 *         another number, or nothing is mapped at `context`.
 * @return MOIETY_E_CONTEXT_DESTROYED  `context` was destroyed, or is no context:
 *         moiety/types.h.
 * @return MOIETY_E_CORRUPT      The bytes are not as moiety_ipc_export() made
 *         them.
 * @return MOIETY_E_UNSUPPORTED  Another version of the layout, another machine,
 *         a device without access to the one that has the memory, or a driver
 *         without IPC.
 * @return MOIETY_E_NO_DEVICE    The device that has the memory is not among
 *         those of this process.
 * @return MOIETY_E_PEER_GONE    The exporter has ended. Noticed when a segment
 *         is opened; memory that is open already stays usable.
 * @return MOIETY_E_STALE        The exporter has released the segment: as far
 *         as this process can know, see docs/ipc.md.
 * @return MOIETY_E_NO_HOST_MEMORY, or what the driver said
 *
 * Ownership: the address may be used until moiety_ipc_close(), once for each
 *            import. It is not a pool's: moiety_free() returns
 *            MOIETY_E_FOREIGN, unless it is of this process's own.
 * Threads:   Takes a lock for an instant. When the segment is not open it waits
 *            for the thread that opens it, or opens it: that calls the driver,
 *            and may close a segment that has been idle longest, which waits for
 *            all work that is queued in this process.
 * Streams:   see moiety_ipc_export().
 */
MOIETY_API MOIETY_MUST_USE moiety_status
moiety_ipc_import(const void *handle, size_t handle_bytes,
                  moiety_context context, moiety_devptr *out);

/**
 * Takes what the process at the other end sent by moiety_ipc_send(): an import,
 * as by moiety_ipc_import(). Memory that this process has open already is not
 * opened again. All descriptors that arrived are closed when it returns.
 *
 * The message is no longer on its way then, whatever is returned but
 * MOIETY_E_WOULD_BLOCK, MOIETY_E_TIMEOUT, and MOIETY_E_INVALID of `out` or `socket`:
 * the owner sends again.
 *
 * @param socket      As for moiety_ipc_send(). One thread at a time receives on
 *                    it, and nothing but such messages is on its way.
 * @param context     As for moiety_ipc_import(). Of a device of another machine
 *                    no primary context can be taken: where none is current,
 *                    name one.
 * @param out_handle  NULL, or [out] the block's handle: its size, the offset in
 *                    its memory.
 * @param out         [out] The address.
 *
 * @return MOIETY_E_INVALID      `out` is NULL, `socket` no such socket, or nothing
 *         is mapped at `context`.
 * @return MOIETY_E_WOULD_BLOCK  The socket does not block, and there is no message
 *         yet.
 * @return MOIETY_E_TIMEOUT      There was no message within the socket's time limit.
 *         Or the peer stops for ten seconds in the middle of one: close the socket.
 * @return MOIETY_E_PEER_GONE    The peer has closed its end, perhaps in the middle
 *         of a message.
 * @return MOIETY_E_CORRUPT      What came is no such message, or contradicts
 *         itself: another number of descriptors, one that is no memory of the
 *         driver's or of another size. Where it was no such message, close the
 *         socket.
 * @return MOIETY_E_STALE        Of fabric handles also: the owner has given the
 *         memory back, or has ended, or is of another fabric.
 * @return MOIETY_E_UNSUPPORTED  Of fabric handles also: this process may open
 *         none, for want of a device of the fabric or of an IMEX channel.
 * @return MOIETY_E_NO_HOST_MEMORY  Also when this process can have no more file
 *         descriptors.
 * @return any other of moiety_ipc_import()
 *
 * Ownership: as for moiety_ipc_import(); the memory stays when the owner ends,
 *            unless it came by fabric handles.
 * Threads:   Waits for the message, and calls the driver.
 * Streams:   see moiety_ipc_export().
 */
MOIETY_API MOIETY_MUST_USE moiety_status
moiety_ipc_receive(int socket, moiety_context context,
                   moiety_ipc_handle *out_handle, moiety_devptr *out);

/**
 * Ends one import. The owner may use the memory again when the importer's work
 * is over *and* the owner knows it. This tells the importer about the former;
 * the latter is a message of the program's.
 *
 * @param address      In memory that moiety_ipc_import() returned; 0 does
 *                     nothing.
 * @param stream       The stream whose queued work uses it last, as for
 *                     moiety_free(): its tail comes after all uses in this
 *                     process. MOIETY_STREAM_ANY: all work of the context.
 *                     MOIETY_STREAM_DONE: nothing is pending.
 * @param out_closing  NULL: the call returns when that work is over. Otherwise
 *                     [out] the closing for moiety_ipc_wait(), or NULL when the
 *                     work is over already; the call then does not wait, except
 *                     for ANY on drivers before 12.5.
 *
 * @return MOIETY_OK         Closed. With `out_closing` NULL or the closing NULL: the
 *         work is over too, and the owner may be told.
 * @return MOIETY_E_INVALID  The segment is open, but all imports of it are
 *         closed already; or `stream` is none.
 * @return MOIETY_E_FOREIGN  `address` is not of an import.
 * @return MOIETY_E_CAPTURING  `stream` captures a graph, or a capture guard is
 *         held and `stream` is ANY: not closed.
 * @return MOIETY_E_NO_HOST_MEMORY, or what the driver said: not closed.
 *
 * Ownership: ends; the segment stays open until moiety_ipc_trim(), or until
 *            other segments take its place.
 * Threads:   Takes a lock for an instant, calls the driver, and waits as said
 *            above.
 * Streams:   an event is recorded. For memory of this process's own the stream
 *            does not matter: its free names one.
 * Context:   any may be current. Of the streams 0, LEGACY and PER_THREAD those
 *            of the context that imported are meant.
 */
MOIETY_API MOIETY_MUST_USE moiety_status moiety_ipc_close(
    moiety_devptr address, moiety_stream stream, moiety_closing *out_closing);

/**
 * Asks, or waits, for the work behind a close.
 *
 * @param closing     As moiety_ipc_close() gave it, or NULL.
 * @param timeout_ms  Milliseconds to wait at most; 0: only ask.
 *
 * @return MOIETY_OK         It is over: the owner may be told.
 * @return MOIETY_E_TIMEOUT  Not yet.
 * @return MOIETY_E_INTERRUPTED  See moiety_set_interrupt().
 * @return MOIETY_E_INVALID  There has been no such closing.
 * @return what the driver said  Nothing is known; ask again.
 *
 * Threads:   Calls the driver; sleeps between two questions.
 */
MOIETY_API MOIETY_MUST_USE moiety_status moiety_ipc_wait(moiety_closing closing,
                                                         uint32_t timeout_ms);

/**
 * Gives segments back to the driver that no import uses: the longest unused
 * first, until at most `keep_count` of them are open. To be called with 0 before
 * the owner may be told that this process has nothing of it any more.
 *
 * @param keep_count  How many may stay.
 * @param out_open    [out] NULL, or how many segments this process has open
 *                    afterwards: in use, waiting for a close's work, or kept.
 *                    Written also when the driver refused.
 *
 * @return what the driver said when it refused; that segment stays open
 *
 * Threads:   Blocks in the driver.
 * Streams:   the driver waits for all work that is queued in this process, on
 *            any stream, for each segment (cuIpcCloseMemHandle): keep it away
 *            from threads that may not wait.
 */
MOIETY_API moiety_status moiety_ipc_trim(uint32_t keep_count,
                                         uint32_t *out_open);

/* Callers compiled so mean their own default stream by a null stream. */
#if defined(CUDA_API_PER_THREAD_DEFAULT_STREAM)
#define moiety_ipc_close(address, stream, out_closing)                         \
    moiety_ipc_close(address, moiety_stream_of_caller(stream), out_closing)
#endif

#ifdef __cplusplus
}
#endif

#endif
