// SPDX-License-Identifier: Apache-2.0
#include "tests/pool/api/pool_life.h"

#include <gtest/gtest.h>

namespace pool_test
{

Life::Life(const moiety_source *source)
    : options_(Defaults()), event_(NewEvent())
{
    options_.limit_bytes = 24 * kMiB;
    options_.first_segment_bytes = 4 * kMiB;
    options_.source = source;
}

Life::~Life()
{
    DestroyEvent(event_);
}

void Life::Run()
{
    if (!pool_)
        Count(moiety_pool_create(&options_, &pool_));
    if (!pool_)
        return;
    Small();
    Large();
    Marked();
    Count(moiety_pool_retire_stream(pool_, first_));
    Count(moiety_pool_trim(pool_, 0, nullptr));
    AtTheLimit();
}

void Life::ExpectHealth()
{
    if (!pool_) {
        ASSERT_OK(moiety_pool_create(&options_, &pool_));
    }
    for (const Block &block : blocks_)
        EXPECT_OK(moiety_free(pool_, block.address, MOIETY_STREAM_ANY));
    blocks_.clear();
    ExpectAllToBeThere();
    ExpectAllToGoBack();
}

moiety_status Life::End()
{
    moiety_leaks leaks = {};
    leaks.struct_size = sizeof(leaks);
    moiety_status status = moiety_pool_destroy(pool_, &leaks);
    EXPECT_EQ(0u, leaks.block_count);
    pool_ = nullptr;
    return status;
}

void Life::Count(moiety_status status)
{
    failed_count_ += status != MOIETY_OK;
}

void Life::Alloc(size_t size_bytes, moiety_stream stream)
{
    moiety_devptr address = 77;
    moiety_status status = moiety_alloc(pool_, size_bytes, stream, &address);
    Count(status);
    if (status != MOIETY_OK) {
        EXPECT_EQ(77u, address);
        return;
    }
    EXPECT_TRUE(ranges_.Add(address, size_bytes));
    blocks_.push_back({address, size_bytes});
}

void Life::AllocBatch(moiety_stream stream)
{
    moiety_devptr addresses[30];
    moiety_status status =
        moiety_alloc_batch(pool_, 20 * kKiB, stream, 30, addresses);
    Count(status);
    for (int i = 0; status == MOIETY_OK && i < 30; i++) {
        EXPECT_TRUE(ranges_.Add(addresses[i], 20 * kKiB));
        blocks_.push_back({addresses[i], 20 * kKiB});
    }
}

void Life::FreeNewest(const std::function<moiety_status(const Block &)> &call)
{
    if (blocks_.empty())
        return;
    Block block = blocks_.back();
    blocks_.pop_back();
    // Another thread could have it before the call is over.
    ranges_.Remove(block.address);
    moiety_status status = call(block);
    Count(status);
    if (status != MOIETY_OK) {
        EXPECT_TRUE(ranges_.Add(block.address, block.size_bytes));
        kept_.push_back(block);
    }
}

void Life::FreeAll(moiety_stream stream)
{
    while (!blocks_.empty())
        FreeNewest([&](const Block &block) {
            return moiety_free(pool_, block.address, stream);
        });
    blocks_.swap(kept_);
}

void Life::Small()
{
    for (moiety_stream stream :
         {static_cast<moiety_stream>(first_),
          static_cast<moiety_stream>(second_), MOIETY_STREAM_ANY}) {
        for (int i = 0; i < 120; i++)
            Alloc(40 * kKiB, stream);
        AllocBatch(stream);
        FreeAll(stream);
    }
}

void Life::Large()
{
    Alloc(3 * kMiB, first_);
    Alloc(9 * kMiB, second_);
    FreeAll(first_);
    Alloc(3 * kMiB, second_);
    FreeAll(MOIETY_STREAM_DONE);
}

void Life::Marked()
{
    Alloc(4096, first_);
    Alloc(4096, first_);
    for (const Block &block : blocks_)
        Count(moiety_record_use(pool_, block.address, second_));
    FreeNewest([&](const Block &block) {
        return moiety_free(pool_, block.address, first_);
    });
    FreeNewest([&](const Block &block) {
        return moiety_free_on_event(pool_, block.address, event_);
    });
    FreeAll(MOIETY_STREAM_ANY);
}

void Life::AtTheLimit()
{
    for (int i = 0; i < 20; i++)
        Alloc(kMiB, second_);
    FreeAll(second_);
    Alloc(22 * kMiB, third_);
    FreeAll(MOIETY_STREAM_ANY);
}

void Life::ExpectAllToBeThere()
{
    moiety_pool_stats stats = {};
    stats.struct_size = sizeof(stats);
    ASSERT_OK(moiety_pool_get_stats(pool_, &stats));
    EXPECT_EQ(0u, stats.allocation_current);
    EXPECT_EQ(0u, stats.allocated_bytes_current);
    EXPECT_EQ(0u, stats.double_frees_found);
    EXPECT_EQ(stats.reserved_bytes_current - stats.unreleased_bytes,
              stats.cached_bytes + stats.retiring_bytes + stats.free_bytes);
    moiety_devptr block = 0;
    EXPECT_OK(moiety_alloc(pool_, 24 * kMiB, second_, &block));
    EXPECT_OK(moiety_free(pool_, block, second_));
}

void Life::ExpectAllToGoBack()
{
    EXPECT_OK(moiety_pool_trim(pool_, 0, nullptr));
    Synchronize();
    EXPECT_OK(moiety_pool_trim(pool_, 0, nullptr));
    moiety_pool_stats stats = {};
    stats.struct_size = sizeof(stats);
    EXPECT_OK(moiety_pool_get_stats(pool_, &stats));
    EXPECT_EQ(0u, stats.reserved_bytes_current);
}

} // namespace pool_test
