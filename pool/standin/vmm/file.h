/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A file that is memory and says by itself what it is, to any process.
 */
#ifndef MOIETY_POOL_STANDIN_VMM_FILE_H_
#define MOIETY_POOL_STANDIN_VMM_FILE_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "pool/driver/cuda_abi.h"

/* The files are called so, as /proc shows. */
#define VMM_FILE_NAME "moiety_standin_vmm"

/* At the end of the file. */
struct vmm_trailer {
    char magic[16];
    uint64_t size_bytes; /* of the memory, which comes first in the file */
    uint64_t proof;      /* while fabric handles of it are good; else 0 */
    CUmemAllocationProp properties;
};

/* The caller closes `*out_fd`. */
CUresult vmm_file_make(size_t size_bytes, const CUmemAllocationProp *properties,
                       int *out_fd, ino_t *out_inode);
/* False for any file that is not one of these. */
bool vmm_file_read(int fd, ino_t *out_inode, struct vmm_trailer *out);
/* False: the file cannot be written. */
bool vmm_file_write_proof(int fd, size_t size_bytes, uint64_t proof);

#endif
