// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tests/fault/scenario.h"

#include "pool/driver/cuda_abi.h"

namespace fault_test
{

using namespace pool_test;

namespace
{

// It lives as long as the process: none is made in a scenario.
moiety_context FurtherContext()
{
    static moiety_context context = pool_test::NewContext();
    return context;
}

} // namespace

World::World(const std::vector<moiety_ipc_handle> &peers)
    : event(pool_test::NewEvent()), further(FurtherContext()), handles(peers)
{
}

World::~World()
{
    pool_test::DestroyEvent(event);
}

bool World::Try(const char *function, moiety_status status)
{
    Note(function);
    failed_count_ += status != MOIETY_OK;
    if (status != MOIETY_OK) {
        EXPECT_STRNE("", moiety_last_error_message()) << function;
    }
    return status == MOIETY_OK;
}

bool World::TryToEnd(const char *function,
                     const std::function<moiety_status()> &end)
{
    constexpr int kTries = 8; // more than faults in a row
    moiety_status status = end();
    for (int i = 0; i < kTries && status == MOIETY_E_CAPTURING; i++) {
        (void)Try(function, status);
        status = end();
    }
    EXPECT_NE(MOIETY_E_CAPTURING, status) << function;
    return Try(function, status);
}

void World::Own(moiety_devptr address, size_t size_bytes)
{
    EXPECT_TRUE(ranges_.Add(address, size_bytes)) << "given out twice";
    blocks_.emplace_back(address, size_bytes);
}

void World::Alloc(size_t size_bytes, moiety_stream stream)
{
    moiety_devptr address = 77;
    if (!pool)
        return;
    if (TRY(*this, moiety_alloc, (pool, size_bytes, stream, &address)))
        Own(address, size_bytes);
    else
        EXPECT_EQ(77u, address);
}

void World::FreeAll(moiety_stream stream)
{
    while (!blocks_.empty())
        FreeNewest([&](moiety_devptr address, size_t) {
            return TRY(*this, moiety_free, (pool, address, stream));
        });
    blocks_.swap(kept_);
}

void World::Run(const std::function<void()> &before_the_last)
{
    for (const Step &step : kSteps) {
        SCOPED_TRACE(step.name);
        step.run(*this);
    }
    before_the_last();
    kLastStep.run(*this);
}

void World::ExpectImportsToClose()
{
    for (moiety_devptr address : imported)
        EXPECT_OK(moiety_ipc_close(address, MOIETY_STREAM_DONE, nullptr));
    imported.clear();
}

void World::ExpectPoolToBeWhole()
{
    moiety_pool_stats stats = {};
    stats.struct_size = sizeof(stats);
    ExpectImportsToClose();
    if (!pool)
        return;
    EXPECT_OK(moiety_ipc_release_exports(pool, 0));
    FreeAll(MOIETY_STREAM_ANY);
    EXPECT_TRUE(blocks_.empty());
    EXPECT_OK(moiety_pool_trim(pool, 0, nullptr));
    pool_test::Synchronize();
    EXPECT_OK(moiety_pool_trim(pool, 0, nullptr));
    EXPECT_OK(moiety_pool_get_stats(pool, &stats));
    EXPECT_EQ(0u, stats.allocation_current);
    EXPECT_EQ(0u, stats.allocated_bytes_current);
    EXPECT_EQ(0u, stats.double_frees_found);
    EXPECT_EQ(0u, stats.reserved_bytes_current);
}

void World::ExpectToEnd()
{
    ExpectImportsToClose();
    uint32_t open_count = 1;
    pool_test::Synchronize();
    EXPECT_OK(moiety_ipc_trim(0, &open_count));
    EXPECT_EQ(0u, open_count);
    EXPECT_OK(moiety_host_pin_keep(0));
    EXPECT_EQ(MOIETY_E_INVALID, moiety_capture_guard_end()) << "one is held";
    pool_test::Pool fresh;
    fresh.Free(fresh.Alloc(4 * kKiB, first), first);
    fresh.Free(fresh.Alloc(3 * kMiB, second), MOIETY_STREAM_ANY);
    EXPECT_EQ(32 * kMiB, fresh.TrimAll());
}

} // namespace fault_test
