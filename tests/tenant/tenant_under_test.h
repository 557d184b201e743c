/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Tenants of a pool on the stand-in, for calls that are expected to succeed.
 */
#ifndef MOIETY_TESTS_TENANT_TENANT_UNDER_TEST_H_
#define MOIETY_TESTS_TENANT_TENANT_UNDER_TEST_H_

#include <gtest/gtest.h>

#include "tests/pool/pool_under_test.h"
#include "tests/support/tools/pools.h"

namespace tenant_test
{

inline moiety_tenant NewTenant(moiety_pool *pool, uint64_t budget_bytes,
                               const char *name = "one")
{
    moiety_tenant tenant = 0;
    EXPECT_EQ(MOIETY_OK, create_tenant(pool, name, budget_bytes, &tenant));
    return tenant;
}

inline moiety_devptr Alloc(moiety_tenant tenant, size_t size_bytes,
                           moiety_stream stream = MOIETY_STREAM_LEGACY)
{
    moiety_devptr address = 0;
    EXPECT_OK(alloc_for_tenant(tenant, size_bytes, stream, &address));
    return address;
}

inline moiety_tenant_stats Info(moiety_tenant tenant)
{
    moiety_tenant_stats info = {};
    info.struct_size = sizeof(info);
    EXPECT_OK(moiety_tenant_get_stats(tenant, &info));
    return info;
}

inline uint64_t Live(moiety_tenant tenant)
{
    return Info(tenant).live_bytes;
}

// Of an allocation that nobody wants: what it gets it frees.
inline moiety_status StatusOfAlloc(moiety_pool *pool, moiety_tenant tenant,
                                   size_t size_bytes)
{
    moiety_devptr address = 0;
    moiety_status status =
        alloc_for_tenant(tenant, size_bytes, MOIETY_STREAM_LEGACY, &address);
    if (status == MOIETY_OK) {
        EXPECT_OK(moiety_free(pool, address, MOIETY_STREAM_LEGACY));
    }
    return status;
}

} // namespace tenant_test

#endif
