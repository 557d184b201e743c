/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * An allocator of bench/subjects/models on memory that is only numbers, and what
 * is to hold for each of them.
 */
#ifndef MOIETY_TESTS_REPLAY_MODEL_UNDER_TEST_H_
#define MOIETY_TESTS_REPLAY_MODEL_UNDER_TEST_H_

#include <cstdint>
#include <map>
#include <vector>

#include <gtest/gtest.h>

#include "bench/subjects/models/best_fit.h"
#include "bench/subjects/models/expandable.h"
#include "bench/subjects/models/pow2_buddy.h"
#include "tests/replay/segment_ledger.h"

namespace replay_test
{

constexpr uint64_t kKiB = UINT64_C(1) << 10;
constexpr uint64_t kMiB = UINT64_C(1) << 20;
constexpr uint64_t kDeviceBytes = UINT64_C(8) << 30;
constexpr uint64_t kBuddySegmentBytes = 256 * kMiB;

// The allocator's calls have no context.
template <typename Ledger> Ledger *used;

inline model_source Segments()
{
    return {[](uint64_t size_bytes) {
                return used<SegmentLedger>->Take(size_bytes);
            },
            [](uint64_t address, uint64_t size_bytes) {
                used<SegmentLedger>->Give(address, size_bytes);
            }};
}

inline model_pages Pages()
{
    return {[](uint64_t size_bytes) {
                return used<PageLedger>->Reserve(size_bytes);
            },
            [](uint64_t address, uint64_t size_bytes) {
                used<PageLedger>->Release(address, size_bytes);
            },
            [](uint64_t address, uint64_t page_bytes, uint64_t count) {
                return used<PageLedger>->Map(address, page_bytes, count);
            },
            [](uint64_t address, uint64_t page_bytes, uint64_t count) {
                used<PageLedger>->Unmap(address, page_bytes, count);
            },
            kDeviceBytes};
}

template <typename Ledger> class ModelTest : public testing::Test
{
  protected:
    ModelTest()
    {
        used<Ledger> = &ledger_;
    }
    void SetUp() override
    {
        ASSERT_NE(allocator_, nullptr);
    }
    void TearDown() override
    {
        model_destroy(allocator_);
        EXPECT_TRUE(ledger_.IsEmpty());
    }

    uint64_t Alloc(uint64_t size_bytes, uint32_t stream = 0)
    {
        return model_alloc(allocator_, size_bytes, stream);
    }
    void Free(uint64_t address)
    {
        model_free(allocator_, address);
    }
    uint64_t Handed()
    {
        return model_handed_bytes(allocator_);
    }
    // What is handed out for one more request of this size.
    uint64_t HandedFor(uint64_t size_bytes)
    {
        const uint64_t before = Handed();
        Alloc(size_bytes);
        return Handed() - before;
    }

    std::map<uint64_t, uint64_t> Shown()
    {
        std::map<uint64_t, uint64_t> shown;
        model_each_segment(
            allocator_,
            [](void *context, uint64_t address, uint64_t size_bytes) {
                static_cast<std::map<uint64_t, uint64_t> *>(context)->emplace(
                    address, size_bytes);
            },
            &shown);
        return shown;
    }

    // Free blocks of these sizes, each between two that are not free.
    std::vector<uint64_t> MakeHoles(uint64_t wall_bytes,
                                    const std::vector<uint64_t> &sizes)
    {
        std::vector<uint64_t> holes;
        Alloc(wall_bytes);
        for (uint64_t size_bytes : sizes) {
            holes.push_back(Alloc(size_bytes));
            Alloc(wall_bytes);
        }
        for (uint64_t hole : holes)
            Free(hole);
        return holes;
    }

    Ledger ledger_;
    model *allocator_ = nullptr;
};

struct BestFit : ModelTest<SegmentLedger> {
    BestFit()
    {
        const model_source source = Segments();
        allocator_ = best_fit_create(&source);
    }
};

struct Expandable : ModelTest<PageLedger> {
    Expandable()
    {
        const model_pages pages = Pages();
        allocator_ = expandable_create(&pages);
    }
};

struct Pow2Buddy : ModelTest<SegmentLedger> {
    Pow2Buddy()
    {
        const model_source source = Segments();
        ledger_.next_address += 512; // no segment is aligned to its size
        allocator_ = pow2_buddy_create(&source);
    }
};

} // namespace replay_test

#endif
