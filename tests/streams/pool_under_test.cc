// SPDX-License-Identifier: Apache-2.0
#include "tests/streams/pool_under_test.h"

#include <algorithm>
#include <chrono>
#include <future>
#include <stdexcept>
#include <thread>

#include "binade/status.h"
#include "tests/support/tools/pool_maker.h"

namespace streams_test
{
namespace
{

// No machine is this slow: what has not happened by then will not.
constexpr std::chrono::seconds kRequired(10);

void Need(binade_status status, const char *call)
{
    if (status != BINADE_OK)
        throw std::runtime_error(std::string("the test cannot go on: ") + call +
                                 ": " + binade_status_name(status) + ": " +
                                 binade_last_error_message());
}

} // namespace

TightPool::TightPool(const Load &load, uint32_t flags, uint32_t wait_ms)
    : size_bytes_(load.size_bytes)
{
    binade_pool_options options = BINADE_POOL_OPTIONS_INIT;
    options.flags = flags;
    options.wait_ms = wait_ms;
    options.limit_bytes = kPoolBytes;
    options.first_segment_bytes = kPoolBytes;
    options.largest_segment_bytes = kPoolBytes;
    Need(pool_maker.create(&options, &pool_), "binade_pool_create");
    Fill();
}

void TightPool::Fill()
{
    binade_status status;
    while ((status = Take(BINADE_STREAM_ANY)) == BINADE_OK) {
    }
    if (status != pool_maker.exhausted)
        Need(status, "binade_alloc");
    if (blocks_.size() != kPoolBytes / size_bytes_)
        throw std::runtime_error("the pool does not hold what it should: " +
                                 std::to_string(blocks_.size()) + " blocks");
    base_ = *std::min_element(blocks_.begin(), blocks_.end());
}

TightPool::~TightPool()
{
    cu.CtxSynchronize();
    TryToFree(BINADE_STREAM_DONE);
    EXPECT_EQ(pool_maker.destroy(pool_, nullptr), BINADE_OK)
        << binade_last_error_message();
}

void TightPool::WriteAll(CUstream stream, uint32_t word) const
{
    Write(stream, base_, kPoolBytes, word);
}

bool TightPool::AllHold(CUstream stream, uint32_t word) const
{
    return std::all_of(blocks_.begin(), blocks_.end(),
                       [&](binade_devptr block) {
                           return Holds(stream, block, size_bytes_, word);
                       });
}

binade_status TightPool::TryToFree(binade_stream stream)
{
    std::vector<binade_devptr> refused;
    binade_status last = BINADE_OK;
    for (binade_devptr block : blocks_) {
        binade_status status = binade_free(pool_, block, stream);
        if (status == BINADE_OK)
            continue;
        refused.push_back(block);
        last = status;
    }
    blocks_ = refused;
    return last;
}

void TightPool::Free(binade_stream stream)
{
    Need(TryToFree(stream), "binade_free");
}

void TightPool::FreeOwn()
{
    for (binade_devptr block : blocks_)
        Need(binade_free_own(pool_, block), "binade_free_own");
    blocks_.clear();
}

void TightPool::FreeAfter(binade_event event)
{
    for (binade_devptr block : blocks_)
        Need(binade_free_after(pool_, block, event), "binade_free_after");
    blocks_.clear();
}

void TightPool::RecordUse(binade_stream stream)
{
    for (binade_devptr block : blocks_)
        Need(binade_record_use(pool_, block, stream), "binade_record_use");
}

binade_status TightPool::Take(binade_stream stream, size_t size_bytes)
{
    binade_devptr block = 0;
    binade_status status = binade_alloc(
        pool_, size_bytes != 0 ? size_bytes : size_bytes_, stream, &block);
    if (status == BINADE_OK)
        blocks_.push_back(block);
    return status;
}

binade_status TightPool::FreeLast(binade_stream stream)
{
    binade_status status = binade_free(pool_, blocks_.back(), stream);
    if (status == BINADE_OK)
        blocks_.pop_back();
    return status;
}

void TightPool::Forget(binade_devptr block)
{
    blocks_.erase(std::find(blocks_.begin(), blocks_.end(), block));
}

::testing::AssertionResult TightPool::ServesAtOnce(binade_stream stream)
{
    binade_status status = Take(stream);
    if (status == BINADE_OK)
        return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure() << binade_status_name(status);
}

::testing::AssertionResult TightPool::ServesNothing(binade_stream stream,
                                                    size_t size_bytes)
{
    for (int attempt = 1; attempt <= 3; attempt++) {
        binade_status status = Take(stream, size_bytes);
        if (status != pool_maker.exhausted)
            return ::testing::AssertionFailure()
                   << "attempt " << attempt << ": "
                   << binade_status_name(status);
    }
    return ::testing::AssertionSuccess();
}

::testing::AssertionResult TightPool::ServesInTheEnd(binade_stream stream,
                                                     size_t size_bytes)
{
    auto deadline = std::chrono::steady_clock::now() + kRequired;
    binade_status status;
    while ((status = Take(stream, size_bytes)) == pool_maker.exhausted &&
           std::chrono::steady_clock::now() < deadline)
        std::this_thread::yield();
    if (status == BINADE_OK)
        return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure()
           << binade_status_name(status) << ": " << binade_last_error_message();
}

::testing::AssertionResult TightPool::IsTrimmedInTheEnd()
{
    auto deadline = std::chrono::steady_clock::now() + kRequired;
    uint64_t all = 0;
    while (all < kPoolBytes && std::chrono::steady_clock::now() < deadline) {
        uint64_t bytes = 0;
        Need(binade_pool_trim(pool_, 0, &bytes), "binade_pool_trim");
        all += bytes;
    }
    if (all == kPoolBytes)
        return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure() << all << " bytes were given back";
}

void TightPool::ExpectTrimmedAtOnce() const
{
    uint64_t bytes = 0;
    EXPECT_EQ(binade_pool_trim(pool_, 0, &bytes), BINADE_OK);
    EXPECT_EQ(bytes, kPoolBytes);
    EXPECT_EQ(Stats().reserved_bytes_current, 0u);
}

void TightPool::SynchronizeBehind(Hold *hold) const
{
    Worker worker;
    std::future<void> over = worker.Start([this] {
        EXPECT_EQ(binade_pool_synchronize(pool_, 20000), BINADE_OK);
    });
    PauseForTheForbidden();
    EXPECT_EQ(over.wait_for(std::chrono::seconds(0)),
              std::future_status::timeout);
    hold->Release();
    over.get();
}

binade_stats TightPool::Stats() const
{
    binade_stats stats = {};
    stats.struct_size = sizeof stats;
    Need(binade_pool_stats(pool_, &stats), "binade_pool_stats");
    return stats;
}

Guard::Guard()
{
    Need(binade_capture_guard_begin(), "binade_capture_guard_begin");
}

Guard::~Guard()
{
    if (is_held_)
        End();
}

void Guard::End()
{
    is_held_ = false;
    EXPECT_EQ(binade_capture_guard_end(), BINADE_OK);
}

CaptureScope::CaptureScope(binade_pool *pool, binade_stream stream)
{
    Need(binade_scope_begin(pool, stream, &scope_), "binade_scope_begin");
}

CaptureScope::~CaptureScope()
{
    if (is_open_)
        End();
    if (is_there_)
        Release();
}

void CaptureScope::End()
{
    is_open_ = false;
    EXPECT_EQ(binade_scope_end(scope_), BINADE_OK);
}

void CaptureScope::Release()
{
    is_there_ = false;
    EXPECT_EQ(binade_scope_release(scope_), BINADE_OK);
}

} // namespace streams_test
