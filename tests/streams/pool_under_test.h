/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A pool of 2 MiB of which a test holds all. What it then frees is all that
 * can serve the next allocation, so that every refusal and every success says
 * something about these blocks, and a test cannot pass by never reusing them.
 */
#ifndef MOIETY_TESTS_STREAMS_POOL_UNDER_TEST_H_
#define MOIETY_TESTS_STREAMS_POOL_UNDER_TEST_H_

#include <cstddef>
#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "moiety/pool.h"
#include "moiety/scope.h"
#include "moiety/stats.h"
#include "moiety/stream.h"
#include "tests/streams/device.h"

namespace streams_test
{

constexpr size_t kPoolBytes = size_t{2} << 20;

// How the 2 MiB are cut.
struct Load {
    const char *name;
    size_t size_bytes;
};

// No magazine has room for them.
constexpr Load kFew = {"Few", kPoolBytes / 4};
// A magazine has room for one.
constexpr Load kSome = {"Some", kPoolBytes / 256};
// A magazine has room for eight, and more than one batch is retired.
constexpr Load kMany = {"Many", kPoolBytes / 2048};
// One block above the size classes.
constexpr Load kRun = {"Run", kPoolBytes};

inline void PrintTo(const Load &load, std::ostream *out)
{
    *out << load.name;
}

inline std::string NameOf(const ::testing::TestParamInfo<Load> &info)
{
    return info.param.name;
}

#define FOR_EACH_LOAD(suite)                                                   \
    INSTANTIATE_TEST_SUITE_P(                                                  \
        Blocks, suite, ::testing::Values(kFew, kSome, kMany, kRun), NameOf)

// What the device writes as the first and as the second owner of a block.
constexpr uint32_t kOld = 0x01dd1e57u;
constexpr uint32_t kNew = 0x5eed5eedu;

class TightPool
{
  public:
    // `flags` and `wait_ms` as in moiety_pool_options.
    explicit TightPool(const Load &load, uint32_t flags = 0,
                       uint32_t wait_ms = 0);
    // Nothing may be held any more, and no guard.
    ~TightPool();
    TightPool(const TightPool &) = delete;
    TightPool &operator=(const TightPool &) = delete;
    operator moiety_pool *() const
    {
        return pool_;
    }

    // Everything that the test holds, as one range.
    void WriteAll(CUstream stream, uint32_t word) const;
    bool AllHold(CUstream stream, uint32_t word) const;

    // Frees everything that the test holds.
    void Free(moiety_stream stream);
    // Frees what it can; what is refused stays the test's. The last refusal.
    moiety_status TryToFree(moiety_stream stream);
    // Frees everything, each block on the stream that it was allocated for.
    void FreeOwn();
    void FreeAfter(moiety_event event);
    void RecordUse(moiety_stream stream);

    // One block; another size than that of the load if that is not 0.
    moiety_status Take(moiety_stream stream, size_t size_bytes = 0);
    // The block that was served last goes back, or stays if it is refused.
    moiety_status FreeLast(moiety_stream stream);
    // The first attempt to get a block succeeds.
    ::testing::AssertionResult ServesAtOnce(moiety_stream stream);
    // No attempt does: the first retires what the thread's caches hold, and
    // the others find it retired.
    ::testing::AssertionResult ServesNothing(moiety_stream stream,
                                             size_t size_bytes = 0);
    // An attempt succeeds when the device has had the time.
    ::testing::AssertionResult ServesInTheEnd(moiety_stream stream,
                                              size_t size_bytes = 0);

    // Everything is given back to the driver when the device has had the time.
    ::testing::AssertionResult IsTrimmedInTheEnd();

    // At the first attempt.
    void ExpectTrimmedAtOnce() const;
    // Another thread synchronises, and is not done before the hold ends.
    void SynchronizeBehind(Hold *hold) const;

    // The test holds everything.
    bool IsWhole() const
    {
        return blocks_.size() == kPoolBytes / size_bytes_;
    }
    // The test does not hold it any more: it was freed in another way.
    void Forget(moiety_devptr block);
    // The block that was served last.
    moiety_devptr last() const
    {
        return blocks_.back();
    }
    size_t size_bytes() const
    {
        return size_bytes_;
    }
    moiety_pool_stats Stats() const;

  private:
    void Fill();

    size_t size_bytes_;
    moiety_pool *pool_ = nullptr;
    moiety_devptr base_ = 0;
    std::vector<moiety_devptr> blocks_;
};

// A capture guard for a scope.
class Guard
{
  public:
    Guard();
    ~Guard();
    Guard(const Guard &) = delete;
    Guard &operator=(const Guard &) = delete;
    void End();

  private:
    bool is_held_ = true;
};

// A capture scope for a C++ scope: at its end it is ended and released.
class CaptureScope
{
  public:
    CaptureScope(moiety_pool *pool, moiety_stream stream);
    ~CaptureScope();
    CaptureScope(const CaptureScope &) = delete;
    CaptureScope &operator=(const CaptureScope &) = delete;
    void End();
    void Release();
    operator moiety_scope() const
    {
        return scope_;
    }

  private:
    moiety_scope scope_ = 0;
    bool is_open_ = true;
    bool is_there_ = true;
};

// Two or three streams, and a pool that is destroyed before they are.
class RuleTest : public ::testing::TestWithParam<Load>
{
  protected:
    explicit RuleTest(uint32_t flags = 0, uint32_t wait_ms = 0)
        : pool_(GetParam(), flags, wait_ms)
    {
    }

    Stream freed_, next_, other_;
    TightPool pool_;
};

} // namespace streams_test

#endif
