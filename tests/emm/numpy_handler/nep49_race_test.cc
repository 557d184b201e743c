// SPDX-License-Identifier: Apache-2.0
//
// Threads that make, resize and drop arrays of one arena, and drop each
// other's: nobody's bytes change under it, and nothing is left.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "emm/nep49/memory.h"
#include "tests/host/arena_under_test.h"
#include "tests/pool/pool_under_test.h"

namespace nep49_test
{
namespace
{

constexpr unsigned kThreads = 16;
constexpr unsigned kSteps = 60;

struct Array {
    unsigned char *bytes;
    size_t size;
    unsigned char fill;
};

// What one thread leaves for another to drop.
class Exchange
{
  public:
    Array Swap(Array array)
    {
        std::lock_guard<std::mutex> lock(mutex_);
        std::swap(array, held_);
        return array;
    }

  private:
    std::mutex mutex_;
    Array held_ = {nullptr, 0, 0};
};

void Check(const Array &array, size_t size)
{
    EXPECT_EQ(static_cast<std::ptrdiff_t>(size),
              std::count(array.bytes, array.bytes + size, array.fill));
}

void Use(void *ctx, Exchange *exchange, unsigned seed)
{
    std::mt19937 random(seed);
    for (unsigned step = 0; step < kSteps; step++) {
        size_t size = 1 + random() % 20000, grown = 1 + random() % 20000;
        Array array = {
            static_cast<unsigned char *>(moiety_nep49_malloc(ctx, size)), size,
            static_cast<unsigned char>(1 + seed)};
        ASSERT_NE(nullptr, array.bytes);
        memset(array.bytes, array.fill, size);
        array.bytes = static_cast<unsigned char *>(
            moiety_nep49_realloc(ctx, array.bytes, grown));
        ASSERT_NE(nullptr, array.bytes);
        Check(array, std::min(size, grown));
        memset(array.bytes, array.fill, grown);
        array.size = grown;
        array = exchange->Swap(array);
        if (array.bytes)
            Check(array, array.size);
        moiety_nep49_free(ctx, array.bytes, array.size);
    }
}

TEST(ArrayVsArray, NobodyGetsWhatAnotherHolds)
{
    pool_test::UseStandin();
    host_test::Arena arena; // which has no leak when it ends
    void *ctx = moiety_host_pool(arena);
    Exchange exchange;
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < kThreads; i++)
        threads.emplace_back(Use, ctx, &exchange, i);
    for (std::thread &thread : threads)
        thread.join();
    Array last = exchange.Swap({nullptr, 0, 0});
    moiety_nep49_free(ctx, last.bytes, last.size);
}

} // namespace
} // namespace nep49_test
