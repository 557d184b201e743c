/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tests/support/tools/pool_maker.h"

struct pool_maker pool_maker = {
    .create = moiety_pool_create,
    .destroy = moiety_pool_destroy,
    .exhausted = MOIETY_E_NO_DEVICE_MEMORY,
};
