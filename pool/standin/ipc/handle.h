/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The 64 bytes of a legacy IPC handle, and what stands behind them.
 */
#ifndef MOIETY_POOL_STANDIN_IPC_HANDLE_H_
#define MOIETY_POOL_STANDIN_IPC_HANDLE_H_

#include <stdbool.h>
#include <stdint.h>

#include "pool/driver/cuda_abi.h"

/* The caller of ipc_handle_seal() fills all but the fields marked "sealed". */
struct ipc_handle {
    uint32_t magic;        /* sealed */
    int32_t pid;           /* sealed: of the exporter */
    uint64_t start_ticks;  /* sealed: when it started, as the kernel says */
    int32_t device;        /* ordinal */
    int32_t fd;            /* of the device's file, in the exporter */
    uint64_t offset;       /* of the allocation in that file */
    uint64_t size_bytes;   /* of the allocation */
    uint64_t proof_offset; /* in the same file, of a word that holds */
    uint64_t proof;        /* this while the allocation lives */
    uint64_t checksum;     /* sealed: of all the above */
};

/* Adds who we are. False when the kernel does not tell. */
bool ipc_handle_seal(struct ipc_handle *handle, CUipcMemHandle *out);

/* Opens the file of a handle that another process sealed; the caller closes
 * `out_fd`. INVALID_VALUE for bytes that are no handle, for an exporter that
 * is gone and for an allocation that is freed; INVALID_CONTEXT for a handle of
 * this very process; INVALID_DEVICE when this process lacks the device. */
CUresult ipc_handle_open(const CUipcMemHandle *raw, struct ipc_handle *out,
                         int *out_fd);

#endif
