// SPDX-License-Identifier: Apache-2.0
//
// The functions that NumPy's handler is made of: what is pinned and what is
// not, sizes that change, sizes that are wrong, no memory, and no arena.
#include "emm/nep49/memory.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "tests/host/arena_under_test.h"
#include "tests/pool/pool_under_test.h"

namespace nep49_test
{
namespace
{

using namespace host_test;
using namespace pool_test;

constexpr size_t kPage = MOIETY_NEP49_PINNED_BYTES_MIN;

class Handler : public StandinTest
{
  protected:
    static bool IsPinned(moiety_host *arena, const void *address)
    {
        size_t bytes;
        return moiety_usable_size(moiety_host_pool(arena),
                                  reinterpret_cast<uintptr_t>(address),
                                  &bytes) == MOIETY_OK;
    }
};

bool Holds(const void *address, int byte, size_t count)
{
    const auto *bytes = static_cast<const unsigned char *>(address);
    return std::count(bytes, bytes + count, byte) ==
           static_cast<std::ptrdiff_t>(count);
}

// Queues work on `stream` that writes to `address`.
void Write(void *address, moiety_stream stream)
{
    auto memset_async =
        pool_test::Get<int(uint64_t, unsigned char, size_t, moiety_stream)>(
            "cuMemsetD8Async");
    ASSERT_EQ(0,
              memset_async(reinterpret_cast<uintptr_t>(address), 1, 1, stream));
}

TEST_F(Handler, PinsFromAPageUp)
{
    Arena arena;
    void *ctx = moiety_host_pool(arena);
    void *small = moiety_nep49_malloc(ctx, kPage - 1);
    void *large = moiety_nep49_malloc(ctx, kPage);
    EXPECT_FALSE(IsPinned(arena, small));
    EXPECT_TRUE(IsPinned(arena, large));
    memset(small, 1, kPage - 1);
    memset(large, 1, kPage);
    moiety_nep49_free(ctx, small, kPage - 1);
    moiety_nep49_free(ctx, large, kPage);
}

// Wherever the C library puts them.
TEST_F(Handler, NeverTakesPlainMemoryForPinned)
{
    Arena arena;
    void *ctx = moiety_host_pool(arena);
    std::vector<void *> blocks;
    for (size_t bytes = 0; bytes < kPage; bytes++) {
        void *address = moiety_nep49_malloc(ctx, bytes);
        ASSERT_NE(nullptr, address);
        EXPECT_NE(0u, reinterpret_cast<uintptr_t>(address) % 512);
        EXPECT_EQ(0u, reinterpret_cast<uintptr_t>(address) % 16);
        memset(address, 0xa5, bytes);
        blocks.push_back(address);
    }
    for (size_t bytes = 0; bytes < kPage; bytes++) {
        EXPECT_TRUE(Holds(blocks[bytes], 0xa5, bytes));
        moiety_nep49_free(ctx, blocks[bytes], bytes);
    }
}

TEST_F(Handler, FreesNothingForNull)
{
    Arena arena;
    moiety_nep49_free(moiety_host_pool(arena), nullptr, 0);
    moiety_nep49_free(moiety_host_pool(arena), nullptr, kMiB);
}

TEST_F(Handler, DoesNotBelieveTheSizeOfAFree)
{
    Arena arena; // which has no leak when it ends
    void *ctx = moiety_host_pool(arena);
    moiety_nep49_free(ctx, moiety_nep49_malloc(ctx, kMiB), 1);
    moiety_nep49_free(ctx, moiety_nep49_malloc(ctx, 1), kMiB);
    moiety_nep49_free(ctx, moiety_nep49_malloc(ctx, 0), 1);
}

TEST_F(Handler, ZeroesMemoryThatWasUsed)
{
    Arena arena(Tight());
    void *ctx = moiety_host_pool(arena);
    for (size_t bytes : {size_t{64}, size_t{2 * kMiB}}) {
        void *dirty = moiety_nep49_malloc(ctx, bytes);
        ASSERT_NE(nullptr, dirty);
        memset(dirty, 0xff, bytes);
        moiety_nep49_free(ctx, dirty, bytes);
        void *clean = moiety_nep49_calloc(ctx, bytes / 8, 8);
        ASSERT_NE(nullptr, clean);
        EXPECT_TRUE(Holds(clean, 0, bytes));
        moiety_nep49_free(ctx, clean, bytes);
    }
}

TEST_F(Handler, RefusesAnArrayWhoseSizeOverflows)
{
    Arena arena;
    void *ctx = moiety_host_pool(arena);
    EXPECT_EQ(nullptr, moiety_nep49_calloc(ctx, SIZE_MAX / 4, 8));
    EXPECT_EQ(nullptr, moiety_nep49_calloc(ctx, SIZE_MAX, SIZE_MAX));
    EXPECT_EQ(nullptr, moiety_nep49_malloc(ctx, SIZE_MAX));
}

TEST_F(Handler, KeepsWhatABlockHoldsWhenItsSizeChanges)
{
    const size_t sizes[] = {1,         100,       kPage - 1, kPage,
                            3 * kPage, 300000,    5 * kMiB,  300000,
                            kPage,     kPage - 1, 5 * kMiB,  1};
    Arena arena;
    void *ctx = moiety_host_pool(arena);
    void *block = moiety_nep49_realloc(ctx, nullptr, 1);
    size_t before = 1;
    memset(block, 0x11, 1);
    for (size_t bytes : sizes) {
        block = moiety_nep49_realloc(ctx, block, bytes);
        ASSERT_NE(nullptr, block);
        EXPECT_TRUE(Holds(block, 0x11, std::min(before, bytes)));
        EXPECT_EQ(bytes >= kPage, IsPinned(arena, block)) << bytes;
        memset(block, 0x11, bytes);
        before = bytes;
    }
    moiety_nep49_free(ctx, block, before);
}

TEST_F(Handler, GrowsIntoTheRoomThatABlockHas)
{
    Arena arena;
    void *ctx = moiety_host_pool(arena);
    void *block = moiety_nep49_malloc(ctx, 100000);
    size_t room = 0;
    ASSERT_OK(moiety_usable_size(moiety_host_pool(arena),
                                 reinterpret_cast<uintptr_t>(block), &room));
    ASSERT_GT(room, 100000u);
    EXPECT_EQ(block, moiety_nep49_realloc(ctx, block, room));
    EXPECT_EQ(block, moiety_nep49_realloc(ctx, block, room - room / 3));
    moiety_nep49_free(ctx, block, room);
}

TEST_F(Handler, GivesBackMostOfWhatShrinksToLittle)
{
    Arena arena(Tight());
    void *ctx = moiety_host_pool(arena);
    void *block = moiety_nep49_malloc(ctx, kMiB + 512 * kKiB);
    block = moiety_nep49_realloc(ctx, block, kPage);
    void *other = moiety_nep49_malloc(ctx, kMiB);
    EXPECT_NE(nullptr, other);
    moiety_nep49_free(ctx, other, kMiB);
    moiety_nep49_free(ctx, block, kPage);
}

TEST_F(Handler, AnswersNullWhenThereIsNoMemory)
{
    Arena arena(Tight());
    void *ctx = moiety_host_pool(arena);
    void *all = moiety_nep49_malloc(ctx, 2 * kMiB);
    ASSERT_NE(nullptr, all);
    memset(all, 0x22, 2 * kMiB);
    EXPECT_EQ(nullptr, moiety_nep49_malloc(ctx, kPage));
    EXPECT_EQ(nullptr, moiety_nep49_calloc(ctx, kPage, 1));
    EXPECT_EQ(nullptr, moiety_nep49_realloc(ctx, nullptr, kPage));
    EXPECT_EQ(nullptr, moiety_nep49_realloc(ctx, all, 4 * kMiB));
    // There is no room to move to, but to shrink needs none.
    EXPECT_EQ(all, moiety_nep49_realloc(ctx, all, kPage));
    EXPECT_TRUE(Holds(all, 0x22, 2 * kMiB));
    moiety_nep49_free(ctx, all, kPage);
}

TEST_F(Handler, WaitsWithAFreedBlockForWorkOnAnyStream)
{
    Arena arena(Tight());
    void *ctx = moiety_host_pool(arena);
    pool_test::Stream stream;
    stream.Hold();
    void *used = moiety_nep49_malloc(ctx, 2 * kMiB);
    ASSERT_NE(nullptr, used);
    Write(used, stream);
    moiety_nep49_free(ctx, used, 2 * kMiB);
    EXPECT_EQ(nullptr, moiety_nep49_malloc(ctx, 2 * kMiB));
    stream.Release();
    pool_test::Synchronize();
    void *again = moiety_nep49_malloc(ctx, 2 * kMiB);
    EXPECT_EQ(used, again);
    moiety_nep49_free(ctx, again, 2 * kMiB);
}

TEST_F(Handler, OutlivesItsArena)
{
    moiety_host_options options = Tight();
    moiety_host *host = nullptr;
    ASSERT_OK(moiety_host_create(&options, &host));
    void *ctx = moiety_host_pool(host);
    void *small = moiety_nep49_malloc(ctx, 100);
    void *large = moiety_nep49_malloc(ctx, kMiB);
    ASSERT_OK(moiety_host_destroy(host, nullptr));

    EXPECT_EQ(nullptr, moiety_nep49_malloc(ctx, kPage));
    EXPECT_EQ(nullptr, moiety_nep49_calloc(ctx, kPage, 2));
    EXPECT_EQ(nullptr, moiety_nep49_realloc(ctx, large, kPage));
    EXPECT_EQ(nullptr, moiety_nep49_realloc(ctx, large, 100));
    EXPECT_EQ(nullptr, moiety_nep49_realloc(ctx, small, kPage));
    moiety_nep49_free(ctx, large, kMiB);
    memset(small, 1, 100);
    small = moiety_nep49_realloc(ctx, small, 200);
    ASSERT_NE(nullptr, small);
    EXPECT_TRUE(Holds(small, 1, 100));
    moiety_nep49_free(ctx, small, 200);
}

// Of what it has from its parent, a child knows no sizes.
TEST_F(Handler, HasPlainMemoryInTheChildOfAFork)
{
    Arena arena;
    void *ctx = moiety_host_pool(arena);
    void *block = moiety_nep49_malloc(ctx, kMiB);
    pid_t child = fork();
    ASSERT_NE(-1, child);
    if (child == 0) {
        void *own = moiety_nep49_calloc(ctx, kMiB, 1);
        int wrong = own == nullptr || !Holds(own, 0, kMiB);
        wrong |= 2 * (moiety_nep49_realloc(ctx, block, 2 * kMiB) != nullptr);
        own = moiety_nep49_realloc(ctx, own, 2 * kMiB);
        wrong |= 4 * (own == nullptr || !Holds(own, 0, kMiB));
        wrong |= 8 * (moiety_nep49_malloc(ctx, SIZE_MAX - 10) != nullptr);
        moiety_nep49_free(ctx, own, 2 * kMiB);
        moiety_nep49_free(ctx, block, kMiB);
        _exit(wrong);
    }
    int status = -1;
    ASSERT_EQ(child, waitpid(child, &status, 0));
    EXPECT_EQ(0, status);
    EXPECT_TRUE(IsPinned(arena, block));
    moiety_nep49_free(ctx, block, kMiB);
}

} // namespace
} // namespace nep49_test
