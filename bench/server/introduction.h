/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What the server says before it serves: which driver it found, what the device
 * can do, and that bytes come back from there as they were sent.
 */
#ifndef BINADE_BENCH_SERVER_INTRODUCTION_H_
#define BINADE_BENCH_SERVER_INTRODUCTION_H_

#include <stdbool.h>

#include <binade/binade.h>

#include "bench/server/options.h"

/* Opens the driver that BINADE_DRIVER names. `*out` is written when SERVER_OK
 * is returned; otherwise it has been said on stderr why not. */
enum server_exit server_introduce(int device, binade_caps *out);

/* Whether the driver's times are made up (BINADE_STANDIN_COST). */
bool server_is_simulated(const binade_caps *caps);

#endif
