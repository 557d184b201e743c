/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * From what a program asked for and what the environment says, the options that
 * a pool is made with. No driver and no device is asked here, so what depends
 * on them (the device's ordinal, the context, the source) is checked later.
 */
#ifndef BINADE_POOL_CONFIG_OPTIONS_H_
#define BINADE_POOL_CONFIG_OPTIONS_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "binade/pool.h"
#include "binade/status.h"

/* Most that one pool can reserve: the size of its offset space. */
#define BINADEI_CAPACITY_BYTES (UINT64_C(1) << 40)

/* Entries of the history that the key `record` brings where none was asked
 * for. */
#define BINADEI_RECORD_ENTRIES 4096U

/* Version 0.1.0 ended with cache_bytes: no smaller struct has ever been. */
#define BINADEI_OPTIONS_BYTES_MIN                                              \
    (offsetof(binade_pool_options, cache_bytes) + sizeof(uint64_t))

struct binadei_word;

/* The value of the key `record` in a text of BINADE_CONF that was resolved.
 * False: it names none. */
bool binadei_options_record(const char *conf, struct binadei_word *out);

/* Writes to `out`, if it returns BINADE_OK, every field of this version.
 *
 * given  NULL for the defaults; of this version, or of a later one whose
 *        further fields are all 0.
 * conf   NULL, or the text of BINADE_CONF, which goes over `given`.
 *
 * BINADE_OK, or BINADE_E_INVALID with a message that names the option, its
 * value and what is accepted. Reads no environment; any thread. */
BINADE_MUST_USE binade_status
binadei_options_resolve(const binade_pool_options *given, const char *conf,
                        binade_pool_options *out);

#endif
