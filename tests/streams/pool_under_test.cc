// SPDX-License-Identifier: Apache-2.0
#include "tests/streams/pool_under_test.h"

#include <algorithm>
#include <chrono>
#include <future>
#include <stdexcept>
#include <thread>

#include "moiety/status.h"
#include "tests/support/tools/pool_maker.h"
#include "tests/support/tools/pools.h"

namespace streams_test
{
namespace
{

// What has not happened in so many turns, between which all others may run, will
// not.
constexpr unsigned kTurns = 4000;

void LetOthersRun()
{
    // They may need this processor.
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

void Need(moiety_status status, const char *call)
{
    if (status != MOIETY_OK)
        throw std::runtime_error(std::string("the test cannot go on: ") + call +
                                 ": " + moiety_status_name(status) + ": " +
                                 moiety_last_error_message());
}

} // namespace

TightPool::TightPool(const Load &load, uint32_t flags, uint32_t wait_ms)
    : size_bytes_(load.size_bytes)
{
    moiety_pool_options options = driver_options();
    set_kind(&options, flags);
    options.wait_ms = wait_of(wait_ms);
    options.limit_bytes = kPoolBytes;
    options.first_segment_bytes = kPoolBytes;
    options.largest_segment_bytes = kPoolBytes;
    Need(pool_maker.create(&options, &pool_), "moiety_pool_create");
    Fill();
}

void TightPool::Fill()
{
    moiety_status status;
    while ((status = Take(MOIETY_STREAM_ANY)) == MOIETY_OK) {
    }
    if (status != pool_maker.exhausted)
        Need(status, "moiety_alloc");
    if (blocks_.size() != kPoolBytes / size_bytes_)
        throw std::runtime_error("the pool does not hold what it should: " +
                                 std::to_string(blocks_.size()) + " blocks");
    base_ = *std::min_element(blocks_.begin(), blocks_.end());
}

TightPool::~TightPool()
{
    cu.CtxSynchronize();
    TryToFree(MOIETY_STREAM_DONE);
    EXPECT_EQ(pool_maker.destroy(pool_, nullptr), MOIETY_OK)
        << moiety_last_error_message();
}

void TightPool::WriteAll(CUstream stream, uint32_t word) const
{
    Write(stream, base_, kPoolBytes, word);
}

bool TightPool::AllHold(CUstream stream, uint32_t word) const
{
    return std::all_of(blocks_.begin(), blocks_.end(),
                       [&](moiety_devptr block) {
                           return Holds(stream, block, size_bytes_, word);
                       });
}

moiety_status TightPool::TryToFree(moiety_stream stream)
{
    std::vector<moiety_devptr> refused;
    moiety_status last = MOIETY_OK;
    for (moiety_devptr block : blocks_) {
        moiety_status status = moiety_free(pool_, block, stream);
        if (status == MOIETY_OK)
            continue;
        refused.push_back(block);
        last = status;
    }
    blocks_ = refused;
    return last;
}

void TightPool::Free(moiety_stream stream)
{
    Need(TryToFree(stream), "moiety_free");
}

void TightPool::FreeOwn()
{
    for (moiety_devptr block : blocks_)
        Need(moiety_free_on_alloc_stream(pool_, block),
             "moiety_free_on_alloc_stream");
    blocks_.clear();
}

void TightPool::FreeAfter(moiety_event event)
{
    for (moiety_devptr block : blocks_)
        Need(moiety_free_on_event(pool_, block, event), "moiety_free_on_event");
    blocks_.clear();
}

void TightPool::RecordUse(moiety_stream stream)
{
    for (moiety_devptr block : blocks_)
        Need(moiety_record_use(pool_, block, stream), "moiety_record_use");
}

moiety_status TightPool::Take(moiety_stream stream, size_t size_bytes)
{
    moiety_devptr block = 0;
    moiety_status status = moiety_alloc(
        pool_, size_bytes != 0 ? size_bytes : size_bytes_, stream, &block);
    if (status == MOIETY_OK)
        blocks_.push_back(block);
    return status;
}

moiety_status TightPool::FreeLast(moiety_stream stream)
{
    moiety_status status = moiety_free(pool_, blocks_.back(), stream);
    if (status == MOIETY_OK)
        blocks_.pop_back();
    return status;
}

void TightPool::Forget(moiety_devptr block)
{
    blocks_.erase(std::find(blocks_.begin(), blocks_.end(), block));
}

::testing::AssertionResult TightPool::ServesAtOnce(moiety_stream stream)
{
    moiety_status status = Take(stream);
    if (status == MOIETY_OK)
        return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure() << moiety_status_name(status);
}

::testing::AssertionResult TightPool::ServesNothing(moiety_stream stream,
                                                    size_t size_bytes)
{
    for (int attempt = 1; attempt <= 3; attempt++) {
        moiety_status status = Take(stream, size_bytes);
        if (status != pool_maker.exhausted)
            return ::testing::AssertionFailure()
                   << "attempt " << attempt << ": "
                   << moiety_status_name(status);
    }
    return ::testing::AssertionSuccess();
}

::testing::AssertionResult TightPool::ServesInTheEnd(moiety_stream stream,
                                                     size_t size_bytes)
{
    moiety_status status;
    unsigned turns = 0;
    while ((status = Take(stream, size_bytes)) == pool_maker.exhausted &&
           turns++ < kTurns)
        LetOthersRun();
    if (status == MOIETY_OK)
        return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure()
           << moiety_status_name(status) << ": " << moiety_last_error_message();
}

::testing::AssertionResult TightPool::IsTrimmedInTheEnd()
{
    uint64_t all = 0;
    for (unsigned turn = 0; all < kPoolBytes && turn < kTurns; turn++) {
        uint64_t bytes = 0;
        Need(moiety_pool_trim(pool_, 0, &bytes), "moiety_pool_trim");
        all += bytes;
        LetOthersRun();
    }
    if (all == kPoolBytes)
        return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure() << all << " bytes were given back";
}

void TightPool::ExpectTrimmedAtOnce() const
{
    uint64_t bytes = 0;
    EXPECT_EQ(moiety_pool_trim(pool_, 0, &bytes), MOIETY_OK);
    EXPECT_EQ(bytes, kPoolBytes);
    EXPECT_EQ(Stats().reserved_bytes_current, 0u);
}

void TightPool::SynchronizeBehind(Hold *hold) const
{
    Worker worker;
    std::future<void> over = worker.Start([this] {
        EXPECT_EQ(moiety_pool_synchronize(pool_, UINT32_MAX), MOIETY_OK);
    });
    PauseForTheForbidden();
    EXPECT_EQ(over.wait_for(std::chrono::seconds(0)),
              std::future_status::timeout);
    hold->Release();
    over.get();
}

moiety_pool_stats TightPool::Stats() const
{
    moiety_pool_stats stats = {};
    stats.struct_size = sizeof stats;
    Need(moiety_pool_get_stats(pool_, &stats), "moiety_pool_get_stats");
    return stats;
}

Guard::Guard()
{
    Need(moiety_capture_guard_begin(), "moiety_capture_guard_begin");
}

Guard::~Guard()
{
    if (is_held_)
        End();
}

void Guard::End()
{
    is_held_ = false;
    EXPECT_EQ(moiety_capture_guard_end(), MOIETY_OK);
}

CaptureScope::CaptureScope(moiety_pool *pool, moiety_stream stream)
{
    Need(moiety_scope_begin(pool, stream, &scope_), "moiety_scope_begin");
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
    EXPECT_EQ(moiety_scope_end(scope_), MOIETY_OK);
}

void CaptureScope::Release()
{
    is_there_ = false;
    EXPECT_EQ(moiety_scope_release(scope_), MOIETY_OK);
}

} // namespace streams_test
