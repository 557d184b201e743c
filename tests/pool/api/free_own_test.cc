// SPDX-License-Identifier: Apache-2.0
//
// moiety_free_on_alloc_stream() of blocks and of what is none, in pools of each kind. Whom
// the memory serves is for tests/streams/freed_own.cc.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "tests/pool/pool_under_test.h"
#include "tests/support/tools/pools.h"

namespace
{

using namespace pool_test;

const size_t kSizes[] = {512, 3 * kKiB, 200 * kKiB, kMiB, 5 * kMiB};

moiety_pool_options Noting(uint32_t further_flags = 0)
{
    moiety_pool_options options = Defaults();
    set_kind(&options, MOIETY_POOL_NOTE_STREAMS | further_flags);
    return options;
}

// Pools whose every call is a way of its own too.
class FreeOwn : public StandinTestWith<uint32_t>
{
  protected:
    moiety_pool_options Options() const
    {
        return Noting(GetParam());
    }
};
INSTANTIATE_TEST_SUITE_P(
    Pools, FreeOwn,
    ::testing::Values(0u, KIND_CHECKED | MOIETY_POOL_CHECKED_QUIET,
                      KIND_PASS_THROUGH, MOIETY_POOL_EXPORTABLE));

TEST_P(FreeOwn, TakesBlocksOfEachSizeAndStream)
{
    Stream created;
    Pool pool(Options());
    const moiety_stream streams[] = {
        nullptr,           MOIETY_STREAM_LEGACY, MOIETY_STREAM_PER_THREAD,
        MOIETY_STREAM_ANY, MOIETY_STREAM_DONE,   created};
    for (int round = 0; round < 3; round++)
        for (moiety_stream stream : streams)
            for (size_t size_bytes : kSizes)
                EXPECT_OK(moiety_free_on_alloc_stream(
                    pool, pool.Alloc(size_bytes, stream)));
    EXPECT_EQ(0u, pool.Stats().allocation_current);
    EXPECT_OK(moiety_pool_retire_stream(pool, created));
}

TEST_P(FreeOwn, OfTheNullAddressDoesNothing)
{
    Pool pool(Options());
    EXPECT_OK(moiety_free_on_alloc_stream(pool, 0));
    EXPECT_EQ(0u, pool.Stats().allocation_freed);
}

TEST_P(FreeOwn, OfWhatIsNoBlockIsRefused)
{
    Pool pool(Options());
    Pool other(Options());
    for (size_t size_bytes : kSizes) {
        moiety_devptr block = pool.Alloc(size_bytes);
        EXPECT_EQ(MOIETY_E_INVALID,
                  moiety_free_on_alloc_stream(pool, block + 1));
        EXPECT_EQ(MOIETY_E_FOREIGN, moiety_free_on_alloc_stream(other, block));
        EXPECT_EQ(1u, pool.Stats().allocation_current);
        EXPECT_OK(moiety_free_on_alloc_stream(pool, block));
    }
    EXPECT_EQ(MOIETY_E_FOREIGN,
              moiety_free_on_alloc_stream(pool, ~moiety_devptr{511}));
}

TEST_P(FreeOwn, TwiceInARowIsRefused)
{
    Pool pool(Options());
    const bool has_records = GetParam() & (KIND_CHECKED | KIND_PASS_THROUGH);
    for (size_t size_bytes : kSizes) {
        moiety_devptr block = pool.Alloc(size_bytes);
        EXPECT_OK(moiety_free_on_alloc_stream(pool, block));
        // Of a large one, which no cache has, only that it is free is known.
        EXPECT_EQ(has_records || size_bytes < 200 * kKiB ? MOIETY_E_DOUBLE_FREE
                                                         : MOIETY_E_INVALID,
                  moiety_free_on_alloc_stream(pool, block))
            << size_bytes;
    }
    EXPECT_EQ(0u, pool.Stats().allocation_current);
}

TEST_P(FreeOwn, OfATenantsBlockGivesItsBytesBack)
{
    Stream stream;
    Pool pool(Options());
    moiety_tenant tenant = 0;
    ASSERT_EQ(MOIETY_OK, create_tenant(pool, "t", kMiB, &tenant));
    for (int i = 0; i < 8; i++) {
        moiety_devptr block = 0;
        ASSERT_OK(alloc_for_tenant(tenant, 900 * kKiB, stream, &block));
        ASSERT_OK(moiety_free_on_alloc_stream(pool, block));
    }
    EXPECT_OK(moiety_tenant_destroy(tenant));
    EXPECT_OK(moiety_pool_retire_stream(pool, stream));
}

TEST_P(FreeOwn, AfterTheContextIsLostIsTaken)
{
    moiety_context context = pool_test::NewContext();
    moiety_pool_options options = Options();
    options.context = context;
    Pool pool(options);
    moiety_devptr block = pool.Alloc(kMiB);
    ASSERT_OK(moiety_pool_context_lost(pool));
    EXPECT_OK(moiety_free_on_alloc_stream(pool, block));
    pool.End();
    pool_test::DestroyContext(context);
}

TEST_P(FreeOwn, InADestroyedPoolIsRefused)
{
    moiety_pool *pool = nullptr;
    const moiety_pool_options options = Options();
    ASSERT_OK(moiety_pool_create(&options, &pool));
    ASSERT_OK(moiety_pool_destroy(pool, nullptr));
    EXPECT_EQ(MOIETY_E_DESTROYED, moiety_free_on_alloc_stream(pool, 512));
    EXPECT_EQ(MOIETY_E_INVALID, moiety_free_on_alloc_stream(nullptr, 512));
}

TEST_P(FreeOwn, IsRefusedWhereStreamsAreNotNoted)
{
    moiety_pool_options options = Options();
    options.flags &= ~MOIETY_POOL_NOTE_STREAMS;
    Pool pool(options);
    moiety_devptr block = pool.Alloc(kKiB);
    EXPECT_EQ(MOIETY_E_UNSUPPORTED, moiety_free_on_alloc_stream(pool, block));
    EXPECT_EQ(1u, pool.Stats().allocation_current);
    pool.Free(block);
}

// A call that names no stream may meet the end of one.
TEST_P(FreeOwn, WhileAnotherThreadRetiresTheStream)
{
    Pool pool(Options());
    for (int round = 0; round < 50; round++) {
        Stream stream;
        std::vector<moiety_devptr> blocks;
        for (int i = 0; i < 16; i++)
            blocks.push_back(pool.Alloc(kSizes[i % 3], stream));
        std::thread other([&] {
            for (moiety_devptr block : blocks)
                EXPECT_OK(moiety_free_on_alloc_stream(pool, block));
        });
        EXPECT_OK(moiety_pool_retire_stream(pool, stream));
        other.join();
    }
    EXPECT_EQ(0u, pool.Stats().allocation_current);
}

// The threads' blocks are of streams that all of them use.
TEST_P(FreeOwn, BySeveralThreadsAtOnce)
{
    constexpr int kThreads = 4;
    Stream streams[3];
    Pool pool(Options());
    std::atomic<moiety_devptr> shelf[8] = {};
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; t++)
        threads.emplace_back([&, t] {
            for (int i = 0; i < 2000; i++) {
                moiety_devptr block =
                    pool.Alloc(kSizes[(i + t) % 3], streams[(i * 7 + t) % 3]);
                block = shelf[i % 8].exchange(block);
                EXPECT_OK(moiety_free_on_alloc_stream(pool, block));
            }
        });
    for (std::thread &thread : threads)
        thread.join();
    for (auto &place : shelf)
        EXPECT_OK(moiety_free_on_alloc_stream(pool, place.load()));
    EXPECT_EQ(0u, pool.Stats().allocation_current);
    for (Stream &stream : streams)
        EXPECT_OK(moiety_pool_retire_stream(pool, stream));
}

moiety_history_entry LastNoted(moiety_pool *pool)
{
    std::vector<moiety_history_entry> entries(64);
    moiety_history_summary summary = {};
    summary.struct_size = sizeof summary;
    EXPECT_OK(
        moiety_history_read(pool, entries.data(), entries.size(), &summary));
    return summary.count ? entries[summary.count - 1] : moiety_history_entry{};
}

class FreeOwnHistory : public StandinTest
{
  protected:
    FreeOwnHistory() : pool_(Remembering()) {}

    ~FreeOwnHistory() override
    {
        EXPECT_OK(moiety_pool_retire_stream(pool_, stream_));
    }

    void ExpectFreedOnItsStream(moiety_devptr block)
    {
        ASSERT_OK(moiety_free_on_alloc_stream(pool_, block));
        const moiety_history_entry last = LastNoted(pool_);
        EXPECT_EQ(MOIETY_HISTORY_FREE, last.kind);
        EXPECT_EQ(block, last.address);
        EXPECT_EQ(static_cast<moiety_stream>(stream_), last.stream);
    }

    Stream stream_;
    Pool pool_;

  private:
    static moiety_pool_options Remembering()
    {
        moiety_pool_options options = Noting();
        options.history_entries = 64;
        return options;
    }
};

// So that a recording replays on the right stream.
TEST_F(FreeOwnHistory, NamesTheStream)
{
    ExpectFreedOnItsStream(pool_.Alloc(kKiB, stream_));
}

// Where its note is depends on its length.
TEST_F(FreeOwnHistory, NamesTheStreamOfABlockThatWasResized)
{
    for (size_t to : {kKiB, 64 * kKiB, 100 * kKiB, 3 * kMiB, 9 * kMiB}) {
        moiety_devptr block = pool_.Alloc(5 * kMiB, stream_);
        ASSERT_OK(moiety_resize(pool_, block, to, stream_)) << to;
        ExpectFreedOnItsStream(block);
    }
}

} // namespace
