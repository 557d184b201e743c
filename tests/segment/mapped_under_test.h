/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A space, the heap of one stream, and segments of mapped memory over them, in
 * pages of 2 MiB: a page's number is its place among the reserved addresses.
 * Whatever comes and goes, a watcher is told. At the end everything must be back at
 * the mapper. For the tests of this folder.
 */
#ifndef MOIETY_TESTS_SEGMENT_MAPPED_UNDER_TEST_H_
#define MOIETY_TESTS_SEGMENT_MAPPED_UNDER_TEST_H_

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/segment/fake_mapper.h"
#include "tests/segment/ledger.h"
#include "tests/support/segment_probe.h"
#include "tests/support/space_probe.h"

namespace segment_test
{

constexpr uint64_t kPage = PROBE_PAGE_BYTES;

// What was passed and what comes next, where the test says nothing else.
constexpr uint64_t kPassed = 4;
constexpr uint64_t kNext = 5;

inline segment_probe_options WithCapacity(uint32_t pages,
                                          uint64_t limit_pages = 0)
{
    segment_probe_options options = {};
    options.page_capacity = pages;
    options.limit_bytes = limit_pages * kPage;
    options.handle_pages = 32;
    return options;
}

class MappedSegments
{
  public:
    explicit MappedSegments(segment_probe_options options = WithCapacity(1
                                                                         << 14))
    {
        space = space_probe_create(options.page_capacity);
        EXPECT_NE(nullptr, space);
        heap = heap_probe_create(space);
        EXPECT_NE(nullptr, heap);
        options.mapper = mapper.Table();
        options.space = space;
        EXPECT_EQ(MOIETY_OK, segment_probe_create(&options, &own))
            << segment_probe_message();
        uint64_t id = 0;
        EXPECT_EQ(MOIETY_OK, segment_probe_watch(own, &watcher_, &id));
    }

    ~MappedSegments()
    {
        if (own) {
            ExpectSound();
            EXPECT_EQ(MOIETY_OK, End());
        }
    }

    MappedSegments(const MappedSegments &) = delete;
    MappedSegments &operator=(const MappedSegments &) = delete;

    // What is not free is lost, which is no failure.
    moiety_status End()
    {
        is_ending_ = true;
        moiety_status status = segment_probe_destroy(own);
        own = nullptr;
        heap_probe_destroy(heap);
        space_probe_destroy(space);
        EXPECT_EQ("", mapper.Complaint());
        EXPECT_TRUE(mapper.IsEmpty());
        EXPECT_EQ("", told.Complaint());
        EXPECT_EQ(0u, told.LiveBytes()) << "each that was added is released";
        return status;
    }

    // For memory that is done.
    moiety_status Extend(uint64_t pages)
    {
        return ExtendBytes(pages * kPage, nullptr, 0, kPassed);
    }

    // For the stream, whose own memory may move if there is a next epoch.
    moiety_status ExtendOwn(uint64_t pages, uint64_t next = kNext,
                            uint64_t passed = kPassed)
    {
        return ExtendBytes(pages * kPage, heap, next, passed);
    }

    moiety_status ExtendBytes(uint64_t bytes, moietyi_heap *of, uint64_t next,
                              uint64_t passed)
    {
        segment_probe_extension extension = {};
        extension.needed_bytes = bytes;
        extension.has_view = true;
        extension.heap = of;
        extension.next_epoch = next;
        extension.passed_epoch = passed;
        return segment_probe_extend(own, space, &extension);
    }

    // Extends, and takes it whole; it must be at this page.
    void ExtendAndTake(uint32_t page, uint32_t count)
    {
        EXPECT_EQ(MOIETY_OK, Extend(count)) << segment_probe_message();
        Take(page, count);
    }

    // Exactly these pages, out of what is done.
    void Take(uint32_t page, uint32_t count)
    {
        heap_probe_view done = {};
        done.space = space;
        EXPECT_TRUE(heap_probe_view_claim(&done, Grain(page), Grain(count)))
            << "page " << page;
    }

    void TakeOwn(uint32_t page, uint32_t count)
    {
        heap_probe_view view = {};
        view.space = space;
        view.heap = heap;
        EXPECT_TRUE(heap_probe_view_claim(&view, Grain(page), Grain(count)))
            << "page " << page;
    }

    // Done; or the stream's own.
    void Give(uint32_t page, uint32_t count)
    {
        EXPECT_TRUE(space_probe_give(space, Grain(page), Grain(count)));
    }

    void GiveOwn(uint32_t page, uint32_t count)
    {
        EXPECT_TRUE(heap_probe_give(heap, Grain(page), Grain(count)));
    }

    // The stream's own is done.
    void Drain()
    {
        heap_probe_close(heap);
        heap_probe_drain(heap);
    }

    // Whole pages from `page` on, up to `count`, that are free there.
    uint64_t DonePages(uint32_t page, uint32_t count) const
    {
        return space_probe_free_from(space, Grain(page),
                                     Grain(uint64_t{page} + count)) /
               PROBE_PAGE_GRAINS;
    }

    uint64_t OwnPages(uint32_t page, uint32_t count) const
    {
        return heap_probe_free_from(heap, Grain(page),
                                    Grain(uint64_t{page} + count)) /
               PROBE_PAGE_GRAINS;
    }

    uint64_t Trim(uint64_t keep_pages = 0)
    {
        uint64_t bytes = 0;
        EXPECT_EQ(MOIETY_OK,
                  segment_probe_trim(own, keep_pages * kPage, &bytes));
        return bytes / kPage;
    }

    segment_probe_stats Stats()
    {
        segment_probe_stats stats;
        segment_probe_read_stats(own, &stats);
        return stats;
    }

    uint64_t ReservedPages() const
    {
        return segment_probe_reserved_bytes(own) / kPage;
    }

    uint64_t Address(uint32_t page)
    {
        return mapper.Base() + page * kPage;
    }

    uint64_t HandleAt(uint32_t page)
    {
        return mapper.HandleAt(Address(page));
    }

    // Sizes of the calls of create, in pages.
    std::vector<uint64_t> AskedPages()
    {
        std::vector<uint64_t> pages;
        for (uint64_t bytes : mapper.AskedHandles())
            pages.push_back(bytes / kPage);
        return pages;
    }

    // First page and length of what is in one piece.
    std::vector<std::pair<uint32_t, uint32_t>> Pieces()
    {
        std::vector<std::pair<uint32_t, uint32_t>> all;
        segment_probe_info info;
        for (uint32_t from = 0; segment_probe_walk(own, from, &info);
             from = info.first_page + info.page_count) {
            EXPECT_EQ(Address(info.first_page), info.address);
            EXPECT_EQ(info.page_count * kPage, info.memory_bytes);
            all.push_back({info.first_page, info.page_count});
        }
        return all;
    }

    void ExpectSound()
    {
        uint64_t at;
        EXPECT_STREQ(nullptr, segment_probe_check(own));
        EXPECT_STREQ(nullptr, space_probe_check(space, &at));
        EXPECT_STREQ(nullptr, heap_probe_check(&heap, 1, &at));
        EXPECT_EQ("", mapper.Complaint());
        // A handle counts once, wherever it is mapped.
        EXPECT_EQ(mapper.HandleBytes(), segment_probe_reserved_bytes(own));
        uint64_t listed_bytes = 0;
        for (const auto &piece : Pieces()) {
            listed_bytes += piece.second * kPage;
            for (uint32_t i = 0; i < piece.second; i++)
                EXPECT_NE(0u, HandleAt(piece.first + i)) << piece.first + i;
        }
        EXPECT_EQ(mapper.HandleBytes(),
                  listed_bytes + Stats().unreleased_bytes);
        EXPECT_EQ("", told.Complaint());
        EXPECT_EQ(listed_bytes, told.LiveBytes());
    }

    static uint64_t Grain(uint64_t page)
    {
        return page * PROBE_PAGE_GRAINS;
    }

    FakeMapper mapper;
    Ledger told;
    moietyi_space *space = nullptr;
    moietyi_heap *heap = nullptr;
    moietyi_segments *own = nullptr;

  private:
    // Its memory is there, and nobody can take a page of it.
    void Check(const segment_probe_info &info)
    {
        uint32_t first =
            static_cast<uint32_t>((info.address - mapper.Base()) / kPage);
        for (uint32_t i = 0; i < info.page_count; i++) {
            if (!HandleAt(first + i))
                told.Complain("told of what is not mapped:", info.id);
            if (!is_ending_ &&
                (DonePages(first + i, 1) || OwnPages(first + i, 1)))
                told.Complain("told of what is free:", info.id);
        }
    }

    static void Tell(void *self, const segment_probe_info *info, bool is_added)
    {
        auto *own = static_cast<MappedSegments *>(self);
        own->Check(*info);
        if (is_added)
            own->told.Add(info->id, info->memory, info->memory_bytes);
        else
            own->told.Release(info->id, info->memory, info->memory_bytes);
    }

    bool is_ending_ = false;
    segment_probe_watcher watcher_ = {this, Tell};
};

using Pages = std::vector<uint64_t>;
using PieceList = std::vector<std::pair<uint32_t, uint32_t>>;

} // namespace segment_test

#endif
