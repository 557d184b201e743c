/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What the server says before it serves: which driver it found, what the device
 * can do, and that bytes come back from there as they were sent.
 */
#ifndef MOIETY_BENCH_SERVER_INTRODUCTION_H_
#define MOIETY_BENCH_SERVER_INTRODUCTION_H_

#include <stdbool.h>

#include <moiety/moiety.h>

#include "bench/server/options.h"

/* Opens the driver that MOIETY_DRIVER names. `*out` is written when SERVER_OK
 * is returned; otherwise it has been said on stderr why not. */
enum server_exit server_introduce(int device, moiety_caps *out);

/* Whether the driver's times are made up (MOIETY_STANDIN_COST). */
bool server_is_simulated(const moiety_caps *caps);

#endif
