// SPDX-License-Identifier: Apache-2.0
//
// The report as text.
#include <cstdio>
#include <cstring>

#include "tests/pool/oom/oom_under_test.h"

namespace oom_test
{

// Every number is another one.
moiety_oom_report Example()
{
    moiety_oom_report report = {};
    report.struct_size = sizeof(report);
    report.status = MOIETY_E_NO_DEVICE_MEMORY;
    report.requested_bytes = 1001;
    report.needed_bytes = 1002;
    report.alignment_bytes = 1003;
    report.limit_bytes = 1004;
    report.reserved_bytes = 1005;
    report.unreleased_bytes = 1006;
    report.segment_count = 1007;
    report.live_bytes = 1008;
    report.live_count = 1009;
    report.retiring_bytes = 1010;
    report.cached_own_bytes = 1011;
    report.cached_others_bytes = 1012;
    report.cached_ended_bytes = 1013;
    report.free_bytes = 1014;
    report.largest_free_bytes = 1015;
    report.device_free_bytes = 1016;
    report.device_total_bytes = 1017;
    report.driver_code = 1018;
    report.callback_calls = 1019;
    report.callback_successes = 1020;
    report.duration_ns = 1021999;
    report.stream_count = 1;
    report.waiting_stream_count = 1024;
    report.streams[0].stream = reinterpret_cast<moiety_stream>(0x1025);
    report.streams[0].retiring_bytes = 1026;
    report.streams[0].oldest_ns = 1028999;
    for (unsigned i = 0; i < MOIETY_OOM_STEPS; i++) {
        report.steps[i].tries = 1030 + i;
        report.steps[i].gave_bytes = 1040 + i;
    }
    return report;
}

std::string Text(const moiety_oom_report &report)
{
    char buffer[4096];
    size_t length = moiety_oom_text(&report, buffer, sizeof(buffer));
    EXPECT_LT(length, sizeof(buffer));
    EXPECT_EQ(length, std::string(buffer).size());
    return buffer;
}

TEST(OomText, HasEveryNumber)
{
    std::string text = Text(Example());
    for (int number = 1001; number <= 1021; number++)
        EXPECT_NE(std::string::npos, text.find(std::to_string(number)))
            << number << " in\n"
            << text;
    for (const char *word :
         {"0x1025", "1026", "1028 us", "MOIETY_E_NO_DEVICE_MEMORY",
          "and 1023 more streams", "not exact"})
        EXPECT_NE(std::string::npos, text.find(word)) << word << " in\n"
                                                      << text;
}

TEST(OomText, HasEveryStep)
{
    std::string text = Text(Example());
    for (unsigned i = 0; i < MOIETY_OOM_STEPS; i++) {
        std::string words = "taken " + std::to_string(1030 + i) +
                            " times, gave " + std::to_string(1040 + i);
        EXPECT_NE(std::string::npos, text.find(words)) << words << " in\n"
                                                       << text;
    }
}

TEST(OomText, TellsStepsThatWereNotTaken)
{
    moiety_oom_report report = Example();
    report.steps[MOIETY_OOM_HAND_OVER].tries = 0;
    EXPECT_NE(std::string::npos, Text(report).find("hand over: not taken"));
}

TEST(OomText, SaysWhatTheMemoryIs)
{
    moiety_oom_report report = Example();
    EXPECT_NE(std::string::npos, Text(report).find("1007 segments; 1006"));
    std::strcpy(report.source_name, "cuMemMap");
    EXPECT_NE(std::string::npos,
              Text(report).find("1007 segments of cuMemMap; 1006"));
}

TEST(OomText, SaysWhetherItIsExact)
{
    moiety_oom_report report = Example();
    report.is_exact = 1;
    EXPECT_EQ(std::string::npos, Text(report).find("not exact"));
}

TEST(OomText, NamesAContextByItsHandle)
{
    moiety_oom_report report = Example();
    report.streams[0].kind = MOIETY_OOM_KIND_CONTEXT;
    report.streams[0].context = reinterpret_cast<moiety_context>(0x2345);
    EXPECT_NE(std::string::npos,
              Text(report).find("all work of context 0x2345"));
}

TEST(OomText, OfNoFailureSaysSo)
{
    moiety_oom_report report = {};
    report.struct_size = sizeof(report);
    EXPECT_EQ("no allocation of this thread has failed\n", Text(report));
}

TEST(OomText, IsCutWhereThereIsNoRoom)
{
    moiety_oom_report report = Example();
    std::string whole = Text(report);
    char buffer[100];
    EXPECT_EQ(whole.size(), moiety_oom_text(&report, buffer, sizeof(buffer)));
    EXPECT_EQ(whole.substr(0, sizeof(buffer) - 1), buffer);
    EXPECT_EQ(whole.size(), moiety_oom_text(&report, nullptr, 0));
}

TEST(OomText, IsNothingWithoutAReportOrAPlace)
{
    char buffer[8] = "before";
    moiety_oom_report report = Example();
    EXPECT_EQ(0u, moiety_oom_text(nullptr, buffer, sizeof(buffer)));
    EXPECT_EQ(0u, moiety_oom_text(&report, nullptr, 8));
    report.struct_size = offsetof(moiety_oom_report, source_name) - 1;
    EXPECT_EQ(0u, moiety_oom_text(&report, buffer, sizeof(buffer)));
    EXPECT_STREQ("before", buffer);
}

// What version 0.1.0 did not have is not read.
TEST(OomText, TakesTheReportOfVersion010)
{
    moiety_oom_report report = Example();
    report.struct_size = offsetof(moiety_oom_report, source_name);
    std::memset(report.source_name, 'x', sizeof(report.source_name));
    report.other_pool_count = 77;
    std::string text = Text(report);
    EXPECT_NE(std::string::npos, text.find("out of memory"));
    EXPECT_EQ(std::string::npos, text.find("xxx"));
    EXPECT_EQ(std::string::npos, text.find("77 pools"));
}

TEST(OomText, SaysWhatOtherPoolsGave)
{
    moiety_oom_report report = Example();
    report.other_pool_count = 3;
    report.other_pool_bytes = 4096;
    EXPECT_NE(std::string::npos,
              Text(report).find("  others     3 pools of the device were "
                                "asked, and gave 4096 back\n"));
}

TEST(OomText, FitsTheBytesThatAreSaidToBeEnough)
{
    moiety_oom_report report = Example();
    report.stream_count = MOIETY_OOM_STREAMS;
    for (moiety_oom_stream &stream : report.streams) {
        stream.kind = MOIETY_OOM_KIND_CONTEXT;
        stream.context = reinterpret_cast<moiety_context>(~uintptr_t{0});
        stream.retiring_bytes = stream.oldest_ns = UINT64_MAX;
    }
    for (moiety_oom_step &step : report.steps)
        step.tries = step.gave_bytes = UINT64_MAX;
    report.waiting_stream_count = UINT64_MAX;
    EXPECT_LT(Text(report).size() + 22 * 20, 4096u);
}

// 96 MiB of 100 MiB are reserved, in use but for what a test says.
moiety_oom_report Report(uint64_t needed_bytes, uint64_t live_bytes)
{
    moiety_oom_report report = {};
    report.struct_size = sizeof(report);
    report.status = report.grow_status = MOIETY_E_NO_DEVICE_MEMORY;
    report.requested_bytes = report.needed_bytes = needed_bytes;
    report.limit_bytes = 100 * kMiB;
    report.reserved_bytes = 96 * kMiB;
    report.segment_count = 4;
    report.live_bytes = live_bytes;
    return report;
}

std::string FirstLine(const moiety_oom_report &report)
{
    std::string text = Text(report);
    return text.substr(0, text.find('\n'));
}

TEST(OomReason, IsTheLimitWhereAllThatIsNotInUseIsTooLittle)
{
    moiety_oom_report report = Report(11 * kMiB, 90 * kMiB);
    report.free_bytes = report.largest_free_bytes = 6 * kMiB;
    EXPECT_EQ("out of memory: 11 MiB are needed; 90 MiB of a limit of 100 MiB "
              "are in use",
              FirstLine(report));
}

TEST(OomReason, IsTheLimitWhereTheSourceDoesNotTakeMemoryBack)
{
    moiety_oom_report report = Report(8 * kMiB, 40 * kMiB);
    report.unreleased_bytes = 56 * kMiB;
    EXPECT_NE(std::string::npos, FirstLine(report).find("a limit of 100 MiB"));
}

TEST(OomReason, IsTheDeviceWhereTheLimitLeavesRoom)
{
    moiety_oom_report report = Report(3 * kMiB + 512, 96 * kMiB);
    report.limit_bytes = 10240 * kMiB;
    report.device_free_bytes = 1536 * kKiB;
    EXPECT_EQ("out of memory: 3 MiB are needed; beyond 96 MiB the pool cannot "
              "grow: MOIETY_E_NO_DEVICE_MEMORY; the device has 1.5 MiB free",
              FirstLine(report));
    report.limit_bytes = 0; // none
    EXPECT_NE(std::string::npos, FirstLine(report).find("cannot grow"));
}

TEST(OomReason, IsFragmentationWhereEnoughIsFreeInPieces)
{
    moiety_oom_report report = Report(80 * kMiB, 0);
    report.free_bytes = 96 * kMiB;
    report.largest_free_bytes = 79 * kMiB;
    EXPECT_EQ("out of memory: 80 MiB are needed; the longest free run is 79 "
              "MiB in 4 segments; 96 MiB are free in all",
              FirstLine(report));
}

// Segments that are in use in part leave too little of the limit.
TEST(OomReason, IsFragmentationWhereSegmentsAreInUseInPart)
{
    moiety_oom_report report = Report(30 * kMiB, 70 * kMiB);
    report.free_bytes = 26 * kMiB;
    report.largest_free_bytes = 13 * kMiB;
    EXPECT_NE(std::string::npos,
              FirstLine(report).find("the longest free run is 13 MiB"));
}

TEST(OomReason, IsTheDeviceBehindWhereWhatIsMissingWaits)
{
    moiety_oom_report report = Report(8 * kMiB, 80 * kMiB);
    report.free_bytes = report.largest_free_bytes = 2 * kMiB;
    report.retiring_bytes = 13 * kMiB + kMiB / 2;
    report.cached_others_bytes = kMiB / 2;
    report.waiting_stream_count = 3;
    EXPECT_EQ("out of memory: 8 MiB are needed; 13.5 MiB wait for work that is "
              "not over (streams: 3); 2 MiB are free",
              FirstLine(report));
}

TEST(OomReason, IsOthersCachesWhereWhatIsMissingIsThere)
{
    moiety_oom_report report = Report(8 * kMiB, 80 * kMiB);
    report.free_bytes = report.largest_free_bytes = 512;
    report.retiring_bytes = kMiB;
    report.cached_others_bytes = 14 * kMiB;
    EXPECT_EQ("out of memory: 8 MiB are needed; 14 MiB are in the caches of "
              "threads that did not come out of a call; 512 bytes are free",
              FirstLine(report));
}

TEST(OomReason, IsInTheSourcesWords)
{
    moiety_oom_report report = Report(3 * kMiB, 96 * kMiB);
    report.limit_bytes = 0; // none
    snprintf(report.grow_reason, sizeof(report.grow_reason), "it is ill");
    report.grow_status = MOIETY_E_NO_DEVICE_MEMORY;
    report.device_free_bytes = 3 * kMiB;
    EXPECT_NE(std::string::npos,
              FirstLine(report).find(
                  "cannot grow: it is ill; the device has 3 MiB free"));
    // What it has is no matter to host memory, and may be unknown.
    report.grow_status = MOIETY_E_NO_PINNED_MEMORY;
    EXPECT_EQ(std::string::npos, FirstLine(report).find("the device"));
    report.grow_status = MOIETY_E_NO_DEVICE_MEMORY;
    report.device_free_bytes = 0;
    EXPECT_EQ(std::string::npos, FirstLine(report).find("the device"));
}

TEST(OomReason, IsTheDevicesWorkWhereWholeSegmentsWouldDo)
{
    moiety_oom_report report = Report(30 * kMiB, 40 * kMiB);
    report.free_bytes = 60 * kMiB;
    report.largest_free_bytes = 29 * kMiB;
    report.held_up_bytes = 58 * kMiB;
    EXPECT_EQ("out of memory: 30 MiB are needed; 58 MiB of whole segments do "
              "not go back while the device works; the longest free run is 29 "
              "MiB",
              FirstLine(report));
    report.held_up_bytes = 20 * kMiB;
    EXPECT_NE(std::string::npos, FirstLine(report).find("in 4 segments"));
}

TEST(OomReason, IsWhatKeepsEventsFromBeingRecorded)
{
    moiety_oom_report report = Report(8 * kMiB, 80 * kMiB);
    report.free_bytes = report.largest_free_bytes = 2 * kMiB;
    report.retiring_bytes = 14 * kMiB;
    report.unrecorded_bytes = 10 * kMiB;
    report.unrecorded_cause = MOIETY_OOM_UNRECORDED_GUARD;
    EXPECT_EQ("out of memory: 8 MiB are needed; 10 MiB wait for an event, and "
              "none is recorded while a capture guard or a scope is held; 2 "
              "MiB are free",
              FirstLine(report));
    report.unrecorded_cause = MOIETY_OOM_UNRECORDED_CAPTURE;
    EXPECT_NE(std::string::npos,
              FirstLine(report).find("a blocking stream captures a graph"));
    report.unrecorded_bytes = 6 * kMiB;
    EXPECT_NE(std::string::npos, FirstLine(report).find("not over"));
}

TEST(OomReason, OfAbsurdNumbersIsALine)
{
    moiety_oom_report report;
    memset(&report, 0xff, sizeof(report));
    report.struct_size = sizeof(report);
    report.stream_count = 0;
    EXPECT_LT(FirstLine(report).size(), 200u);
}

class OomReasonOfAPool : public OomTest
{
  protected:
    static std::string Message(Pool &pool, size_t size_bytes)
    {
        moiety_oom_report report = Fail(pool, size_bytes);
        std::string message = moiety_last_error_message();
        // The text begins with the same.
        std::string line = FirstLine(report);
        std::string reason = line.substr(line.find("; ") + 2);
        EXPECT_NE(std::string::npos, message.find(reason)) << message;
        return message;
    }
};

TEST_F(OomReasonOfAPool, IsItsLimit)
{
    Pool pool(Small());
    std::vector<moiety_devptr> blocks = Fill(pool, kMiB);
    EXPECT_EQ("1048576 bytes: 8 MiB of a limit of 8 MiB are in use; "
              "moiety_pool_last_oom() has more",
              Message(pool, kMiB));
    FreeAll(pool, blocks);
}

TEST_F(OomReasonOfAPool, IsFragmentation)
{
    Pool pool(Small());
    std::vector<moiety_devptr> blocks = Fill(pool, kMiB);
    for (size_t i = 0; i < blocks.size(); i += 2) {
        pool.Free(blocks[i], MOIETY_STREAM_DONE);
        blocks[i] = 0;
    }
    EXPECT_EQ("2097152 bytes: the longest free run is 1 MiB in 1 segments; 4 "
              "MiB are free in all; moiety_pool_last_oom() has more",
              Message(pool, 2 * kMiB));
    FreeAll(pool, blocks);
}

TEST_F(OomReasonOfAPool, IsTheDeviceBehind)
{
    Pool pool(Small());
    Stream held;
    std::vector<moiety_devptr> blocks = Fill(pool, kMiB);
    held.Hold();
    pool.Free(blocks[0], held);
    pool.Free(blocks[1], held);
    blocks[0] = blocks[1] = 0;
    EXPECT_EQ("1048576 bytes: 2 MiB wait for work that is not over (streams: "
              "1); 0 MiB are free; moiety_pool_last_oom() has more",
              Message(pool, kMiB));
    held.Release();
    FreeAll(pool, blocks);
}

// The device has nothing to do.
TEST_F(OomReasonOfAPool, IsAGuard)
{
    Pool pool(Small());
    const moiety_devptr block = pool.Alloc(7 * kMiB, MOIETY_STREAM_ANY);
    ASSERT_OK(moiety_capture_guard_begin());
    pool.Free(block, MOIETY_STREAM_ANY);
    EXPECT_EQ("6291456 bytes: 7 MiB wait for an event, and none is recorded "
              "while a capture guard or a scope is held; 1 MiB are free; "
              "moiety_pool_last_oom() has more",
              Message(pool, 6 * kMiB));
    EXPECT_EQ(7 * kMiB, LastOom(pool).unrecorded_bytes);
    ASSERT_OK(moiety_capture_guard_end());
    pool.Free(pool.Alloc(6 * kMiB));
}

TEST_F(OomReasonOfAPool, IsInTheDriversWords)
{
    Pool pool;
    pool_test::SetFaults("cuMemAlloc:every=1:code=CUDA_ERROR_OUT_OF_MEMORY");
    EXPECT_NE(
        std::string::npos,
        Message(pool, kMiB)
            .find("cannot grow: cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY (2); the "
                  "device has"));
    pool_test::SetFaults("");
}

// Its blocks were in use when it failed, and are not afterwards.
TEST_F(OomReasonOfAPool, CountsABatchsOwnBlocks)
{
    Pool pool(Small());
    const moiety_devptr block = pool.Alloc(4 * kMiB);
    std::vector<moiety_devptr> batch(6);
    EXPECT_EQ(MOIETY_E_NO_DEVICE_MEMORY,
              moiety_alloc_batch(pool, kMiB, kStream, 6, batch.data()));
    EXPECT_STREQ("beside 4 blocks of the batch, which are free again: 1048576 "
                 "bytes: 8 MiB of a limit of 8 MiB are in use; "
                 "moiety_pool_last_oom() has more",
                 moiety_last_error_message());
    EXPECT_EQ(4 * kMiB, pool.Stats().allocated_bytes_current);
    pool.Free(block);
}

} // namespace oom_test
