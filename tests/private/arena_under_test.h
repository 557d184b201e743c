/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A private arena whose limit a test fills, so that what it frees is all that can
 * serve the next allocation; as tests/streams/pool_under_test.h has it for pools.
 */
#ifndef MOIETY_TESTS_PRIVATE_ARENA_UNDER_TEST_H_
#define MOIETY_TESTS_PRIVATE_ARENA_UNDER_TEST_H_

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "moiety/private.h"
#include "moiety/stats.h"
#include "tests/streams/device.h"
#include "tests/streams/pool_under_test.h"
#include "tests/support/tools/pools.h"

namespace private_test
{

using namespace streams_test;

constexpr size_t kArenaBytes = size_t{4} << 20;
constexpr size_t kPoolBytes = size_t{16} << 20;

// How the arena's bytes are cut: into few, into many, into one.
constexpr Load kFew = {"Few", kArenaBytes / 8};
constexpr Load kMany = {"Many", kArenaBytes / 1024};
constexpr Load kRun = {"Run", kArenaBytes};

class Pool
{
  public:
    explicit Pool(uint32_t flags = 0, uint64_t limit_bytes = kPoolBytes)
    {
        moiety_pool_options options = driver_options();
        set_kind(&options, flags);
        options.wait_ms = MOIETY_WAIT_NONE;
        options.limit_bytes = limit_bytes;
        options.first_segment_bytes = limit_bytes;
        options.largest_segment_bytes = limit_bytes;
        EXPECT_EQ(moiety_pool_create(&options, &own_), MOIETY_OK);
    }
    ~Pool()
    {
        moiety_leaks leaks = {};
        leaks.struct_size = sizeof leaks;
        EXPECT_EQ(moiety_pool_destroy(own_, &leaks), MOIETY_OK)
            << moiety_last_error_message();
        EXPECT_EQ(leaks.block_count, 0u);
    }
    Pool(const Pool &) = delete;
    Pool &operator=(const Pool &) = delete;
    operator moiety_pool *() const
    {
        return own_;
    }

  private:
    moiety_pool *own_ = nullptr;
};

// An open scope of an arena.
class Scope
{
  public:
    Scope(moiety_private arena, moiety_stream stream)
    {
        EXPECT_EQ(moiety_private_scope_begin(arena, stream, &own_), MOIETY_OK)
            << moiety_last_error_message();
    }
    ~Scope()
    {
        if (is_open_)
            End();
    }
    Scope(const Scope &) = delete;
    Scope &operator=(const Scope &) = delete;
    operator moiety_scope() const
    {
        return own_;
    }
    void End()
    {
        is_open_ = false;
        EXPECT_EQ(moiety_scope_end(own_), MOIETY_OK);
    }
    void Release()
    {
        EXPECT_EQ(moiety_scope_release(own_), MOIETY_OK);
    }

  private:
    moiety_scope own_ = 0;
    bool is_open_ = true;
};

class TightArena
{
  public:
    TightArena(moiety_pool *pool, size_t size_bytes,
               uint64_t limit_bytes = kArenaBytes)
        : size_bytes_(size_bytes), pool_(pool)
    {
        EXPECT_EQ(create_arena(pool, limit_bytes, &own_), MOIETY_OK);
    }
    ~TightArena()
    {
        cu.CtxSynchronize();
        Free(MOIETY_STREAM_DONE);
        if (own_)
            Release();
    }
    TightArena(const TightArena &) = delete;
    TightArena &operator=(const TightArena &) = delete;
    operator moiety_private() const
    {
        return own_;
    }

    void Release()
    {
        EXPECT_EQ(moiety_private_destroy(own_), MOIETY_OK)
            << moiety_last_error_message();
        own_ = 0;
    }
    moiety_private_stats Info() const
    {
        moiety_private_stats info = {};
        info.struct_size = sizeof info;
        EXPECT_EQ(moiety_private_get_stats(own_, &info), MOIETY_OK);
        return info;
    }

    moiety_status Take(moiety_stream stream, size_t size_bytes = 0)
    {
        moiety_devptr block = 0;
        moiety_status status = alloc_of_arena(
            own_, size_bytes ? size_bytes : size_bytes_, stream, &block);
        if (status == MOIETY_OK)
            blocks_.push_back(block);
        return status;
    }
    void TakeAll(moiety_stream stream)
    {
        moiety_status status;
        while ((status = Take(stream)) == MOIETY_OK) {
        }
        EXPECT_EQ(status, MOIETY_E_BUDGET) << moiety_last_error_message();
        EXPECT_EQ(blocks_.size(), kArenaBytes / size_bytes_);
    }
    void Free(moiety_stream stream)
    {
        for (moiety_devptr block : blocks_)
            EXPECT_EQ(moiety_free(pool_, block, stream), MOIETY_OK)
                << moiety_last_error_message();
        blocks_.clear();
    }
    void FreeAfter(moiety_event event)
    {
        for (moiety_devptr block : blocks_)
            EXPECT_EQ(moiety_free_on_event(pool_, block, event), MOIETY_OK);
        blocks_.clear();
    }
    void RecordUse(moiety_stream stream)
    {
        for (moiety_devptr block : blocks_)
            EXPECT_EQ(moiety_record_use(pool_, block, stream), MOIETY_OK);
    }

    ::testing::AssertionResult ServesAtOnce(moiety_stream stream,
                                            size_t size_bytes = 0)
    {
        moiety_status status = Take(stream, size_bytes);
        if (status == MOIETY_OK)
            return ::testing::AssertionSuccess();
        return ::testing::AssertionFailure() << moiety_last_error_message();
    }
    ::testing::AssertionResult ServesNothing(moiety_stream stream)
    {
        for (int attempt = 0; attempt < 3; attempt++) {
            moiety_status status = Take(stream);
            if (status != MOIETY_E_BUDGET)
                return ::testing::AssertionFailure()
                       << moiety_status_name(status);
        }
        return ::testing::AssertionSuccess();
    }
    ::testing::AssertionResult ServesInTheEnd(moiety_stream stream)
    {
        // Turns, between which all others may run: what is not done by the last
        // one will not be.
        constexpr unsigned kTurns = 4000;
        moiety_status status;
        unsigned turns = 0;
        while ((status = Take(stream)) == MOIETY_E_BUDGET && turns++ < kTurns)
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        if (status == MOIETY_OK)
            return ::testing::AssertionSuccess();
        return ::testing::AssertionFailure() << moiety_last_error_message();
    }

    moiety_devptr last() const
    {
        return blocks_.back();
    }
    std::vector<moiety_devptr> &blocks()
    {
        return blocks_;
    }

  private:
    size_t size_bytes_;
    moiety_pool *pool_;
    moiety_private own_ = 0;
    std::vector<moiety_devptr> blocks_;
};

// Lets a stream join the capture of another.
inline void Join(CUstream joining, CUstream captured)
{
    Event event;
    MUST(cu.EventRecord(event, captured));
    MUST(cu.StreamWaitEvent(joining, event, 0));
}

inline std::string NameOf(const ::testing::TestParamInfo<Load> &info)
{
    return info.param.name;
}

} // namespace private_test

#endif
