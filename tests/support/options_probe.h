/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Lets tests in C++ ask what pool/config/options.c makes of options and a text.
 */
#ifndef MOIETY_TESTS_SUPPORT_OPTIONS_PROBE_H_
#define MOIETY_TESTS_SUPPORT_OPTIONS_PROBE_H_

#include "moiety/pool.h"

#ifdef __cplusplus
extern "C" {
#endif

moiety_status options_probe_resolve(const moiety_pool_options *given,
                                    const char *conf, moiety_pool_options *out);

/* The last message of this thread. */
const char *options_probe_message(void);

#ifdef __cplusplus
}
#endif

#endif
