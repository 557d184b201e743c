// SPDX-License-Identifier: Apache-2.0
//
// A thread that stands still between the reading of its clock and its entry,
// while others are recorded: what is later than its entry waits for it.
#include <thread>

#include "moiety/trace.h"

#include "tests/record/record_under_test.h"

extern "C" {
#include "tests/progress/freeze.h"
#include "tests/support/tools/stage.h"
}

namespace
{

using namespace record_test;

constexpr size_t kBytes = 8192;

class Recorder : public testing::Test
{
  protected:
    void Begin(const std::string &name, moiety_pool_options options)
    {
        ASSERT_TRUE(stage_open());
        path = FileName(name + ".mtrace");
        ASSERT_EQ(MOIETY_OK, moiety_pool_create(&options, &pool))
            << moiety_last_error_message();
        ASSERT_EQ(MOIETY_OK, moiety_trace_start(pool, path.c_str()));
    }

    // A thread that frees what it allocated, and stands still at a step of that.
    void Freeze(const char *step)
    {
        other = std::thread([this, step] {
            (void)stage_enter();
            // Where there are caches the last of these frees is a hit.
            for (unsigned i = 0; i < 3; i++) {
                if (i) {
                    ASSERT_EQ(MOIETY_OK, moiety_free(pool, block, freed_on));
                }
                ASSERT_EQ(MOIETY_OK,
                          moiety_alloc(pool, kBytes, nullptr, &block));
            }
            freeze_wish wish = {step, 1};
            freeze_follow(&wish);
            ASSERT_EQ(MOIETY_OK, moiety_free(pool, block, freed_on));
            freeze_follow(nullptr);
        });
        while (!freeze_is_on())
            std::this_thread::yield();
    }

    uint64_t Written()
    {
        moiety_trace_summary summary = Summary();
        EXPECT_EQ(MOIETY_OK, moiety_trace_flush(pool, &summary));
        return summary.operation_count;
    }

    // The file, when all have gone on. It has all, once, in order.
    Recording End()
    {
        freeze_release();
        other.join();
        EXPECT_EQ(MOIETY_OK, moiety_trace_stop(pool, nullptr));
        EXPECT_EQ(MOIETY_OK, moiety_pool_destroy(pool, nullptr));
        Recording recording(path);
        for (const char *count :
             {"late_times", "lost", "implied_frees", "dropped_frees"})
            EXPECT_EQ(0u, recording.info.count(count)) << count;
        EXPECT_TRUE(recording.live.empty());
        return recording;
    }

    std::string path;
    moiety_pool *pool = nullptr;
    moiety_devptr block = 0;
    moiety_stream freed_on = nullptr;
    std::thread other;
};

// A hit that was interrupted where nobody knows its time.
TEST_F(Recorder, WaitsForAHitThatHasItsTime)
{
    ASSERT_NO_FATAL_FAILURE(Begin("hit", Recorded(64)));
    Freeze("history.begun");
    uint64_t before = Written();
    Use(pool, 3);
    EXPECT_EQ(before, Written());
    Recording recording = End();
    // Three pairs of the other thread, then these.
    EXPECT_EQ("afafaf" + std::string("afafaf"), recording.Letters());
}

// A full ring is emptied all the same: nobody waits for who stands still.
TEST_F(Recorder, TakesWhatItCannotWriteYet)
{
    ASSERT_NO_FATAL_FAILURE(Begin("taken", Recorded(4)));
    Freeze("history.begun");
    uint64_t before = Written();
    Use(pool, 300);
    EXPECT_EQ(before, Written());
    EXPECT_EQ(303u, End().Count("a"));
}

// A free that is no hit, when its memory can be had and is had by another.
TEST_F(Recorder, HasAFreeBeforeTheNextLifeOfItsBlock)
{
    moiety_pool_options options = Recorded(64);
    options.thread_cache_bytes = MOIETY_BYTES_NONE;
    options.limit_bytes = options.first_segment_bytes =
        options.largest_segment_bytes = 2 << 20;
    ASSERT_NO_FATAL_FAILURE(Begin("free", options));
    freed_on = MOIETY_STREAM_DONE;
    Freeze("range.given");
    std::vector<moiety_devptr> taken;
    while (taken.empty() || taken.back() != block) {
        taken.push_back(0);
        ASSERT_EQ(MOIETY_OK, moiety_alloc(pool, kBytes, nullptr, &taken.back()))
            << taken.size();
    }
    // What came before the free, and no more.
    uint64_t before = Written();
    Use(pool, 2);
    EXPECT_EQ(before, Written());
    for (moiety_devptr one : taken)
        ASSERT_EQ(MOIETY_OK, moiety_free(pool, one, MOIETY_STREAM_DONE));
    EXPECT_EQ("afafaf", End().Letters().substr(0, 6));
}

} // namespace
