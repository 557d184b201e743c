/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A small pool at its limit, for the tests of the way out of memory.
 */
#ifndef MOIETY_TESTS_POOL_OOM_OOM_UNDER_TEST_H_
#define MOIETY_TESTS_POOL_OOM_OOM_UNDER_TEST_H_

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "moiety/oom.h"
#include "tests/pool/pool_under_test.h"

namespace oom_test
{

using namespace pool_test;

// The thread's last report.
inline moiety_oom_report LastOom(moiety_pool *pool)
{
    moiety_oom_report report = {};
    report.struct_size = sizeof(report);
    EXPECT_OK(moiety_pool_last_oom(pool, &report));
    return report;
}

// Short enough for the caches of a pool of 8 MiB.
constexpr size_t kBlock = 4 * kKiB;

class OomTest : public StandinTest
{
  protected:
    // One segment of 8 MiB, and no wait.
    static moiety_pool_options Small()
    {
        moiety_pool_options options = Defaults();
        options.limit_bytes = 8 * kMiB;
        options.first_segment_bytes = 8 * kMiB;
        options.wait_ms = MOIETY_WAIT_NONE;
        return options;
    }

    static std::vector<moiety_devptr> Fill(Pool &pool, size_t size_bytes,
                                           uint64_t bytes = 8 * kMiB,
                                           moiety_stream stream = kStream)
    {
        std::vector<moiety_devptr> blocks;
        for (; bytes >= size_bytes; bytes -= size_bytes)
            blocks.push_back(pool.Alloc(size_bytes, stream));
        return blocks;
    }

    static void FreeAll(Pool &pool, const std::vector<moiety_devptr> &blocks,
                        moiety_stream stream = MOIETY_STREAM_DONE)
    {
        for (moiety_devptr block : blocks)
            pool.Free(block, stream);
    }

    // Expects that an allocation fails for want of memory.
    static moiety_oom_report Fail(Pool &pool, size_t size_bytes,
                                  moiety_stream stream = kStream)
    {
        moiety_devptr address = 77;
        EXPECT_EQ(MOIETY_E_NO_DEVICE_MEMORY,
                  moiety_alloc(pool, size_bytes, stream, &address));
        EXPECT_EQ(77u, address);
        return LastOom(pool);
    }
};

// A callback from a function object.
struct Callback {
    std::function<int(uint64_t)> act;
    unsigned calls = 0;

    static int Call(moiety_pool *, uint64_t requested_bytes, void *user)
    {
        auto *self = static_cast<Callback *>(user);
        self->calls++;
        return self->act ? self->act(requested_bytes) : 0;
    }

    moiety_status AddTo(moiety_pool *pool)
    {
        return moiety_pool_add_oom_callback(pool, Call, this);
    }

    moiety_status RemoveFrom(moiety_pool *pool)
    {
        return moiety_pool_remove_oom_callback(pool, Call, this);
    }
};

} // namespace oom_test

#endif
