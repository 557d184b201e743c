/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Tenants of a pool on the stand-in, for calls that are expected to succeed.
 */
#ifndef BINADE_TESTS_TENANT_TENANT_UNDER_TEST_H_
#define BINADE_TESTS_TENANT_TENANT_UNDER_TEST_H_

#include <gtest/gtest.h>

#include "tests/pool/pool_under_test.h"

namespace tenant_test
{

inline binade_tenant NewTenant(binade_pool *pool, uint64_t budget_bytes,
                               const char *name = "one")
{
    binade_tenant tenant = 0;
    EXPECT_EQ(BINADE_OK,
              binade_tenant_create(pool, name, budget_bytes, &tenant));
    return tenant;
}

inline binade_devptr Alloc(binade_tenant tenant, size_t size_bytes,
                           binade_stream stream = BINADE_STREAM_LEGACY)
{
    binade_devptr address = 0;
    EXPECT_EQ(BINADE_OK,
              binade_tenant_alloc(tenant, size_bytes, stream, &address))
        << binade_last_error_message();
    return address;
}

inline binade_tenant_info Info(binade_tenant tenant)
{
    binade_tenant_info info = {};
    info.struct_size = sizeof(info);
    EXPECT_EQ(BINADE_OK, binade_tenant_stats(tenant, &info));
    return info;
}

inline uint64_t Live(binade_tenant tenant)
{
    return Info(tenant).live_bytes;
}

// Of an allocation that nobody wants: what it gets it frees.
inline binade_status StatusOfAlloc(binade_pool *pool, binade_tenant tenant,
                                   size_t size_bytes)
{
    binade_devptr address = 0;
    binade_status status =
        binade_tenant_alloc(tenant, size_bytes, BINADE_STREAM_LEGACY, &address);
    if (status == BINADE_OK) {
        EXPECT_EQ(BINADE_OK, binade_free(pool, address, BINADE_STREAM_LEGACY));
    }
    return status;
}

} // namespace tenant_test

#endif
