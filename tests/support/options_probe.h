/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Lets tests in C++ ask what pool/config/options.c makes of options and a text.
 */
#ifndef BINADE_TESTS_SUPPORT_OPTIONS_PROBE_H_
#define BINADE_TESTS_SUPPORT_OPTIONS_PROBE_H_

#include "binade/pool.h"

#ifdef __cplusplus
extern "C" {
#endif

binade_status options_probe_resolve(const binade_pool_options *given,
                                    const char *conf, binade_pool_options *out);

/* The last message of this thread. */
const char *options_probe_message(void);

#ifdef __cplusplus
}
#endif

#endif
