/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Pools through the public interface, on the stand-in as the driver of this
 * process, and the few entries and controls of it that these tests need.
 */
#ifndef MOIETY_TESTS_POOL_POOL_UNDER_TEST_H_
#define MOIETY_TESTS_POOL_POOL_UNDER_TEST_H_

#include <cstdint>
#include <map>
#include <string>

#include <gtest/gtest.h>

#include "moiety/checked.h"
#include "moiety/expose.h"
#include "moiety/heap.h"
#include "moiety/history.h"
#include "moiety/ipc.h"
#include "moiety/moiety.h"
#include "moiety/oom.h"
#include "moiety/private.h"
#include "moiety/probe.h"
#include "moiety/scope.h"
#include "moiety/segment.h"
#include "moiety/tenant.h"
#include "moiety/trace.h"

namespace pool_test
{

// Of a test that needs but one.
const moiety_stream kStream = MOIETY_STREAM_LEGACY;

constexpr uint64_t kKiB = UINT64_C(1) << 10;
constexpr uint64_t kMiB = UINT64_C(1) << 20;
constexpr uint64_t kGiB = UINT64_C(1) << 30;

// Makes the stand-in the driver, and the primary context of device 0 current
// in this thread. The process ends with a message when that fails. What
// MOIETY_TEST_CONF says is MOIETY_CONF from then on, so that a test can run on
// pools of another kind too.
void UseStandin();

inline ::testing::AssertionResult IsOk(const char *call, moiety_status status)
{
    if (status == MOIETY_OK)
        return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure()
           << call << " is " << moiety_status_name(status) << ": "
           << moiety_last_error_message();
}

// A call of the library succeeds.
#define EXPECT_OK(call) EXPECT_PRED_FORMAT1(::pool_test::IsOk, call)
#define ASSERT_OK(call) ASSERT_PRED_FORMAT1(::pool_test::IsOk, call)

class StandinTest : public ::testing::Test
{
  protected:
    static void SetUpTestSuite()
    {
        UseStandin();
    }
};

template <typename T>
class StandinTestWith : public StandinTest,
                        public ::testing::WithParamInterface<T>
{
};

// A symbol of the stand-in: an entry by its full name, or a control.
void *Symbol(const char *name);
template <typename T> T *Get(const char *name)
{
    return reinterpret_cast<T *>(Symbol(name));
}

// The other tests' context again, after one that is lost for a pool and not for the
// driver, which has the pool's events and memory still.
void ResetContext();

void SetFaults(const std::string &plan);
uint64_t Calls(const char *entry = "*");
// Calls that had to wait for queued work, or failed instead by "wait:code=".
uint64_t Waits();
// "events", "allocations", "contexts", ...
int64_t Live(const char *kind);

moiety_context PrimaryContext();
moiety_context NewContext();
void DestroyContext(moiety_context context);
moiety_context Current();
void SetCurrent(moiety_context context);

// A stream of the current context.
class Stream
{
  public:
    Stream();
    ~Stream();
    Stream(const Stream &) = delete;
    Stream &operator=(const Stream &) = delete;
    operator moiety_stream() const
    {
        return own_;
    }
    // With work that waits meanwhile. Holds are counted; the end releases them.
    void Hold();
    void Release();

  private:
    moiety_stream own_ = nullptr;
    unsigned hold_count_ = 0;
};

// Waits for all work of the primary context.
void Synchronize();

moiety_event NewEvent();
void DestroyEvent(moiety_event event);

// Writes every 32-bit word, and tells whether each still has that value. Both
// wait for the legacy stream alone.
void Fill(moiety_devptr address, size_t size_bytes, uint32_t word);
bool Holds(moiety_devptr address, size_t size_bytes, uint32_t word);

// The library's, but for a first segment of 32 MiB, in which most tests have room.
moiety_pool_options Defaults();

// A pool, of the kind that tests/support/tools/pool_maker.h says, that expects
// to be whole at its end.
class Pool
{
  public:
    explicit Pool(const moiety_pool_options &options = Defaults());
    ~Pool();
    Pool(const Pool &) = delete;
    Pool &operator=(const Pool &) = delete;
    operator moiety_pool *() const
    {
        return own_;
    }

    // Destroys it; what is left in it is no failure.
    moiety_leaks End();

    // These expect MOIETY_OK; Alloc() is 0 otherwise.
    moiety_devptr Alloc(size_t size_bytes,
                        moiety_stream stream = MOIETY_STREAM_LEGACY);
    void Free(moiety_devptr address,
              moiety_stream stream = MOIETY_STREAM_LEGACY);
    size_t UsableSize(moiety_devptr address);
    uint64_t Trim(uint64_t keep_bytes = 0);
    // Trims, waits for the device, trims again: what was freed with work behind
    // it needs both.
    uint64_t TrimAll();
    moiety_pool_stats Stats();

  private:
    moiety_pool *own_ = nullptr;
};

// Which addresses are in use.
class Ranges
{
  public:
    // False if a part of it is in use already.
    bool Add(uint64_t address, uint64_t size_bytes);
    void Remove(uint64_t address);

  private:
    std::map<uint64_t, uint64_t> end_of_;
};

// The seed of a random test: MOIETY_TEST_SEED, or `otherwise`; printed.
uint64_t Seed(uint64_t otherwise);

} // namespace pool_test

#endif
