/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What both halves of the program share: its threads, and its pairs of processes.
 */
#ifndef MOIETY_TESTS_TWOGPUS_TWOGPUS_H_
#define MOIETY_TESTS_TWOGPUS_TWOGPUS_H_

#include <stdbool.h>
#include <stdint.h>

#include "moiety/moiety.h"
#include "pool/driver/cuda_abi.h"

#define DEVICES 2
#define MIB ((size_t)1 << 20)

/* Ends the process unless a call of the pool succeeded. */
#define WELL(call) twogpus_well(call, #call)
void twogpus_well(moiety_status status, const char *call);

/* Opens the driver and makes a device's primary context current. Ends the process
 * with EXIT_NO_DRIVER where there are fewer than two devices that reach each
 * other's memory, after saying so. */
void twogpus_open(const char *driver);
CUcontext twogpus_context(int ordinal);

/* The process has no driver yet: two others share blocks of `device` with the
 * other device, there and back. Returns the worse of their exit statuses. */
int twogpus_share(const char *driver, uint32_t count, int device,
                  bool is_mapped);

#endif
