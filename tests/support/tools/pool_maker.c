/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tests/support/tools/pool_maker.h"

struct pool_maker pool_maker = {
    .create = binade_pool_create,
    .destroy = binade_pool_destroy,
    .exhausted = BINADE_E_NO_DEVICE_MEMORY,
};
