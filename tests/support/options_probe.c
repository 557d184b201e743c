/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tests/support/options_probe.h"

#include "pool/base/failure.h"
#include "pool/config/options.h"

moiety_status options_probe_resolve(const moiety_pool_options *given,
                                    const char *conf, moiety_pool_options *out)
{
    return moietyi_options_resolve(given, conf, out);
}

const char *options_probe_message(void)
{
    return moietyi_failure_message();
}
