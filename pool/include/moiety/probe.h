/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Features of a device and of the driver under it. The first call that needs the
 * driver opens it; which one is the choice of the environment:
 *
 *   MOIETY_DRIVER=auto     (or unset) the machine's libcuda.so.1
 *   MOIETY_DRIVER=cuda     the same, and never a stand-in
 *   MOIETY_DRIVER=standin  the stand-in driver, which needs no GPU
 *   MOIETY_DRIVER=/a/path  that file (a value with a slash in it)
 *   MOIETY_REQUIRE_GPU=1   refuse a stand-in, however it was chosen
 *
 * A driver once opened stays open until the process ends. A failed attempt
 * leaves nothing behind and may be repeated.
 */
#ifndef MOIETY_PROBE_H_
#define MOIETY_PROBE_H_

#include "moiety/status.h"
#include "moiety/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Features that a driver or device may lack: bits of moiety_caps.features. */

/** Streams have ids that are never reused (cuStreamGetId). */
#define MOIETY_FEATURE_STREAM_IDS (UINT64_C(1) << 0)
/** An event can wait for all work of a context (cuCtxRecordEvent). */
#define MOIETY_FEATURE_CONTEXT_EVENTS (UINT64_C(1) << 1)
/** Address ranges can be reserved and mapped (cuMemMap). */
#define MOIETY_FEATURE_VMM (UINT64_C(1) << 2)
/** Mapped memory can be exported as a file descriptor. */
#define MOIETY_FEATURE_FD_EXPORT (UINT64_C(1) << 3)
/** Mapped memory can be exported as a fabric handle. */
#define MOIETY_FEATURE_FABRIC_EXPORT (UINT64_C(1) << 4)
/** Mapped memory can be placed on a host NUMA node. */
#define MOIETY_FEATURE_HOST_NUMA (UINT64_C(1) << 5)
/** The driver has stream-ordered pools of its own (cuMemAllocAsync). */
#define MOIETY_FEATURE_MEMORY_POOLS (UINT64_C(1) << 6)
/** cuMemAlloc memory can be shared with other processes (cuIpcGetMemHandle). */
#define MOIETY_FEATURE_LEGACY_IPC (UINT64_C(1) << 7)
/** Streams can wait for and write a word of memory (cuStreamWaitValue32). */
#define MOIETY_FEATURE_STREAM_WORDS (UINT64_C(1) << 8)
/** Managed memory works (cuMemAllocManaged). */
#define MOIETY_FEATURE_MANAGED_MEMORY (UINT64_C(1) << 9)
/** Host memory that is already mapped can be pinned (cuMemHostRegister). */
#define MOIETY_FEATURE_HOST_REGISTER (UINT64_C(1) << 10)
/** Host and device share one address space. */
#define MOIETY_FEATURE_UNIFIED_ADDRESSES (UINT64_C(1) << 11)
/** A thread can shield its calls from captures of other threads. */
#define MOIETY_FEATURE_CAPTURE_MODES (UINT64_C(1) << 12)

/** One device, and the driver that it is reached through. */
typedef struct moiety_caps {
    /** Bytes of this struct: set by the caller before the call. */
    uint32_t struct_size;
    /** 1: the stand-in driver, no GPU; 0: a real driver. */
    uint32_t is_standin;
    /** CUDA version of the driver: 1000 * major + 10 * minor. */
    int32_t driver_version;
    /** Devices that the driver shows to this process. */
    int32_t device_count;
    /** Compute capability, as in 9.0. */
    int32_t compute_major;
    int32_t compute_minor;
    /** PCI address. */
    uint32_t pci_domain;
    uint32_t pci_bus;
    uint32_t pci_device;
    /** NUMA node of host memory nearest to the device as the driver tells it;
     * -1 if it does not say. */
    int32_t host_numa_node;
    /** Device memory, bytes. */
    uint64_t total_memory_bytes;
    /** Least unit of mapped memory, bytes; 0 without MOIETY_FEATURE_VMM. */
    uint64_t vmm_granularity_bytes;
    /** MOIETY_FEATURE_ bits, or-ed. */
    uint64_t features;
    /** Identity of the device across processes and restarts. */
    uint8_t uuid[16];
    /** The driver's name of the device; ends with 0. */
    char device_name[96];
    /** File that the driver was loaded from; never NULL. */
    const char *library_path;
} moiety_caps;

/**
 * Opens the driver if that has not been done and tells what it and `device`
 * can do. No memory is taken on the device and no context is made.
 *
 * @param device  Index as the driver counts, from 0 to device_count - 1.
 * @param out     [in,out] `struct_size` says how much the caller has room for.
 *                The fields are written only when MOIETY_OK is returned, and
 *                none past `struct_size`, which then holds the bytes filled in.
 *
 * @return MOIETY_E_INVALID  `out` is NULL, `struct_size` is less than that of
 *         version 0.1.0, `device` is out of range, or MOIETY_DRIVER or
 *         MOIETY_REQUIRE_GPU has a value that is not accepted.
 * @return MOIETY_E_NO_DRIVER  The driver library was not found, is not a
 *         driver, or is not the kind that MOIETY_DRIVER asks for.
 * @return MOIETY_E_UNSUPPORTED  The driver is too old: the message names the
 *         entry that it lacks.
 * @return MOIETY_E_NO_DEVICE  The driver has no device, or it is a stand-in and
 *         MOIETY_REQUIRE_GPU=1.
 * @return MOIETY_E_NO_HOST_MEMORY  No memory for the library's own records.
 * @return MOIETY_E_FORKED  Called in the child of a fork.
 * @return MOIETY_E_DEINITIALIZED  The process is exiting.
 * @return MOIETY_E_DRIVER  The driver failed otherwise;
 *         moiety_last_driver_error() has its code.
 *
 * Ownership: the caller's struct; `library_path` is the library's and valid
 *            until the process ends.
 * Threads:   any, concurrently. May block: the first calls wait for one another
 *            while the driver is opened.
 * Streams:   none; nothing is enqueued and nothing is waited for.
 * Context:   none need be current, and the current one stays.
 */
MOIETY_API MOIETY_MUST_USE moiety_status moiety_probe(int device,
                                                      moiety_caps *out);

/**
 * Names a feature.
 *
 * @param feature  Exactly one MOIETY_FEATURE_ bit.
 *
 * @return A short name such as "stream ids"; NULL if this library knows no
 *         feature of that bit, so that a loop over the bits ends by itself.
 *
 * Ownership: the library's; valid as long as the library is loaded.
 * Threads:   any, concurrently. Wait-free.
 * Streams:   none.
 * Context:   none; the driver is not touched.
 */
MOIETY_API const char *moiety_feature_name(uint64_t feature);

#ifdef __cplusplus
}
#endif

#endif
