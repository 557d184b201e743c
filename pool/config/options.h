/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * From what a program asked for and what the environment says, the options that
 * a pool is made with. No driver and no device is asked here, so what depends
 * on them (the device's ordinal, the context, the source) is checked later.
 */
#ifndef MOIETY_POOL_CONFIG_OPTIONS_H_
#define MOIETY_POOL_CONFIG_OPTIONS_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "moiety/pool.h"
#include "moiety/status.h"

/* Most that one pool can reserve: the size of its offset space. */
#define MOIETYI_CAPACITY_BYTES (UINT64_C(1) << 40)

/* Entries of the history that the key `trace` brings where none was asked
 * for. */
#define MOIETYI_RECORD_ENTRIES 4096U

/* Version 0.1.0 ended with cache_bytes: no smaller struct has ever been. */
#define MOIETYI_OPTIONS_BYTES_MIN                                              \
    (offsetof(moiety_pool_options, cache_bytes) + sizeof(uint64_t))

struct moietyi_word;

/* The value of the key `trace` in a text of MOIETY_CONF that was resolved.
 * False: it names none. */
bool moietyi_options_record(const char *conf, struct moietyi_word *out);

/* `given`, of any version, as a struct of this one. MOIETY_OK, or MOIETY_E_INVALID:
 * it is shorter than any version, or sets what this version does not know. */
MOIETY_MUST_USE moiety_status moietyi_options_copy(
    const moiety_pool_options *given, moiety_pool_options *out);

/* Fields of a struct that was resolved as a program says them: what is 0 by its own
 * name of none. */
void moietyi_options_say_none(moiety_pool_options *options);

/* Writes to `out`, if it returns MOIETY_OK, every field of this version. No field
 * stands for a default any more: where a program has a name for none, 0 is it.
 *
 * given  NULL for the defaults; of this version, or of a later one whose
 *        further fields are all 0.
 * conf   NULL, or the text of MOIETY_CONF, which goes over `given`.
 *
 * MOIETY_OK, or MOIETY_E_INVALID with a message that names the option, its
 * value and what is accepted. Reads no environment; any thread. */
MOIETY_MUST_USE moiety_status
moietyi_options_resolve(const moiety_pool_options *given, const char *conf,
                        moiety_pool_options *out);

#endif
