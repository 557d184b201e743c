/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tests/support/options_probe.h"

#include "pool/base/failure.h"
#include "pool/config/options.h"

binade_status options_probe_resolve(const binade_pool_options *given,
                                    const char *conf, binade_pool_options *out)
{
    return binadei_options_resolve(given, conf, out);
}

const char *options_probe_message(void)
{
    return binadei_failure_message();
}
