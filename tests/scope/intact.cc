// SPDX-License-Identifier: Apache-2.0
//
// With a scope open and another thread capturing, everything that a pool does:
// the capture is still there at the end.
#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "moiety/ipc.h"
#include "moiety/scope.h"
#include "tests/streams/device.h"
#include "tests/streams/pool_under_test.h"
#include "tests/support/tools/pools.h"

namespace streams_test
{

constexpr size_t kSmall = size_t{1} << 10;
constexpr size_t kLarge = size_t{5} << 20;
constexpr int kEnough = 1000;   // blocks, for batches to be retired
constexpr int kFewChecked = 20; // there are none in such a pool

// Two pools and what else the calls below work on. The first has the scope.
struct Objects {
    explicit Objects(uint32_t flags)
        : is_passing((flags & KIND_PASS_THROUGH) != 0),
          few((flags & KIND_CHECKED) != 0 ? 1 : 4),
          enough((flags & KIND_CHECKED) != 0 ? kFewChecked : kEnough)
    {
        moiety_pool_options options = driver_options();
        set_kind(&options, flags);
        options.wait_ms = MOIETY_WAIT_NONE;
        options.first_segment_bytes = size_t{2} << 20;
        Make(options, &pool);
        options.flags = MOIETY_POOL_REUSE_DEPENDENCIES;
        options.mode = MOIETY_MODE_PLAIN;
        options.limit_bytes = size_t{4} << 20;
        Make(options, &tight);
        MUST(cu.EventRecord(event, used));
        FreeOnTheLegacyStream();
    }

    ~Objects()
    {
        MUST(cu.CtxSynchronize());
        for (moiety_pool *one : {pool, tight, made}) {
            EXPECT_EQ(moiety_pool_destroy(one, nullptr), MOIETY_OK)
                << moiety_last_error_message();
        }
    }
    Objects(const Objects &) = delete;
    Objects &operator=(const Objects &) = delete;

    static void Make(const moiety_pool_options &options, moiety_pool **out)
    {
        EXPECT_EQ(moiety_pool_create(&options, out), MOIETY_OK)
            << moiety_last_error_message();
    }

    moiety_devptr Take(size_t size_bytes, moiety_stream stream)
    {
        moiety_devptr block = 0;
        EXPECT_EQ(moiety_alloc(pool, size_bytes, stream, &block), MOIETY_OK)
            << moiety_last_error_message();
        return block;
    }

    void Free(moiety_devptr block, moiety_stream stream)
    {
        EXPECT_EQ(moiety_free(pool, block, stream), MOIETY_OK)
            << moiety_last_error_message();
    }

    // Also while a blocking stream captures.
    void FreeOnTheLegacyStream()
    {
        std::vector<moiety_devptr> blocks;
        for (int i = 0; i < enough; i++)
            blocks.push_back(Take(kSmall, MOIETY_STREAM_ANY));
        for (moiety_devptr block : blocks)
            Free(block, MOIETY_STREAM_LEGACY);
    }

    // Frees more than caches hold on one stream, and asks for it on another.
    void Pass(moiety_stream from, moiety_stream to)
    {
        for (size_t size_bytes : {kSmall, kLarge}) {
            std::vector<moiety_devptr> blocks;
            int count = size_bytes == kLarge ? few : enough;
            for (int i = 0; i < count; i++)
                blocks.push_back(Take(size_bytes, from));
            for (moiety_devptr block : blocks)
                Free(block, from);
            for (moiety_devptr &block : blocks)
                block = Take(size_bytes, to);
            for (moiety_devptr block : blocks)
                Free(block, to);
        }
    }

    const bool is_passing;
    const int few, enough;
    Stream used, next;
    Event event;
    moiety_pool *pool = nullptr;
    moiety_pool *tight = nullptr;
    moiety_pool *made = nullptr; // while the capture goes on
};

static void ClimbTheLadder(Objects &o)
{
    std::vector<moiety_devptr> blocks;
    moiety_devptr block = 0;
    while (moiety_alloc(o.tight, kSmall * 64, o.used, &block) == MOIETY_OK)
        blocks.push_back(block);
    for (size_t i = 0; i < blocks.size(); i++)
        EXPECT_EQ(
            moiety_free(o.tight, blocks[i],
                        i % 2 != 0 ? moiety_stream(o.used) : MOIETY_STREAM_ANY),
            MOIETY_OK);
    // The guard keeps the pool from an event of the context. A call that names
    // the stream records on it.
    EXPECT_EQ(moiety_alloc(o.tight, kSmall * 64, o.next, &block),
              MOIETY_E_NO_DEVICE_MEMORY);
    EXPECT_EQ(moiety_alloc(o.tight, kSmall * 48, o.used, &block), MOIETY_OK);
    EXPECT_EQ(moiety_free(o.tight, block, o.used), MOIETY_OK);
    // Some of it is handed over, and then nothing is left to try.
    blocks.clear();
    while (moiety_alloc(o.tight, kSmall * 64, o.next, &block) == MOIETY_OK)
        blocks.push_back(block);
    EXPECT_FALSE(blocks.empty());
    EXPECT_EQ(moiety_alloc(o.tight, kLarge / 2, MOIETY_STREAM_ANY, &block),
              MOIETY_E_NO_DEVICE_MEMORY);
    for (moiety_devptr taken : blocks)
        EXPECT_EQ(moiety_free(o.tight, taken, o.next), MOIETY_OK);
}

static void Share(Objects &o)
{
    moiety_devptr block = o.Take(kSmall, o.used), imported = 0;
    moiety_ipc_handle handle = {};
    ASSERT_EQ(moiety_ipc_export(o.pool, block, &handle), MOIETY_OK)
        << moiety_last_error_message();
    ASSERT_EQ(
        moiety_ipc_import(&handle, sizeof handle, PrimaryContext(), &imported),
        MOIETY_OK);
    o.Free(block, o.used);
    EXPECT_EQ(moiety_ipc_close(imported, o.next, nullptr), MOIETY_OK);
    EXPECT_EQ(moiety_ipc_trim(0, nullptr), MOIETY_OK);
    EXPECT_EQ(moiety_ipc_release_exports(o.pool, 0), MOIETY_OK);
}

static void MakeAnotherPool(Objects &o)
{
    moiety_pool_options options = driver_options();
    moiety_devptr block = 0;
    Objects::Make(options, &o.made);
    EXPECT_EQ(moiety_alloc(o.made, kSmall, MOIETY_STREAM_ANY, &block),
              MOIETY_OK);
    EXPECT_EQ(moiety_free(o.made, block, MOIETY_STREAM_ANY), MOIETY_OK);
    // Not before the guard's end.
    EXPECT_EQ(moiety_pool_destroy(o.made, nullptr), MOIETY_E_CAPTURING);
}

static void EndAThread(Objects &o)
{
    Worker worker;
    worker.Do([&] {
        for (int i = 0; i < o.enough; i++)
            o.Free(o.Take(kSmall, MOIETY_STREAM_PER_THREAD),
                   MOIETY_STREAM_PER_THREAD);
        o.Pass(MOIETY_STREAM_PER_THREAD, o.used);
    });
    worker.End();
    o.Pass(o.next, MOIETY_STREAM_ANY);
}

static void OpenAnotherScope(Objects &o)
{
    CaptureScope scope(o.pool, o.used);
    Capture capture(o.used);
    moiety_devptr block = o.Take(kLarge, o.used);
    o.Free(block, o.used);
}

// What the pool that has the scope is.
struct Kind {
    const char *name;
    uint32_t flags;
};

static const Kind kKinds[] = {
    {"", MOIETY_POOL_EXPORTABLE},
    {"Checked", KIND_CHECKED},
    {"PassThrough", KIND_PASS_THROUGH},
};

struct Row {
    const char *name;
    void (*act)(Objects &);
};

[[maybe_unused]] static void PrintTo(const Row &row, std::ostream *out)
{
    *out << row.name;
}

static const Row kRows[] = {
    {"Grow", [](Objects &o) { o.Free(o.Take(kLarge, o.used), o.used); }},
    {"FreeOnAStream", [](Objects &o) { o.Pass(o.used, o.next); }},
    {"FreeOnAStreamForAny",
     [](Objects &o) { o.Pass(o.used, MOIETY_STREAM_ANY); }},
    {"FreeOnTheLegacyStream",
     [](Objects &o) {
         o.FreeOnTheLegacyStream();
         o.Pass(o.used, o.next);
     }},
    {"FreeWithoutAStream",
     [](Objects &o) { o.Pass(MOIETY_STREAM_ANY, o.next); }},
    {"FreeDone",
     [](Objects &o) {
         o.Free(o.Take(kSmall, o.used), MOIETY_STREAM_DONE);
         o.Free(o.Take(kLarge, o.used), MOIETY_STREAM_DONE);
     }},
    {"Trim",
     [](Objects &o) {
         uint64_t bytes = 0;
         o.Pass(o.used, o.next);
         o.Free(o.Take(kLarge * 13, o.used), MOIETY_STREAM_DONE);
         EXPECT_EQ(moiety_pool_trim(o.pool, 0, &bytes), MOIETY_OK);
         // Where nothing is cached, all that is over went back before.
         EXPECT_TRUE(bytes > 0 || o.is_passing);
     }},
    {"RecordUse",
     [](Objects &o) {
         moiety_devptr block = o.Take(kSmall, o.used);
         EXPECT_EQ(moiety_record_use(o.pool, block, o.next), MOIETY_OK);
         EXPECT_EQ(moiety_record_use(o.pool, block, MOIETY_STREAM_ANY),
                   MOIETY_OK);
         o.Free(block, o.used);
     }},
    {"FreeAfter",
     [](Objects &o) {
         moiety_devptr block = o.Take(kSmall, o.used);
         EXPECT_EQ(moiety_free_on_event(o.pool, block, o.event), MOIETY_OK);
         o.Pass(o.used, o.next);
     }},
    {"RetireAStream",
     [](Objects &o) {
         o.Pass(o.used, o.next);
         EXPECT_EQ(moiety_pool_retire_stream(o.pool, o.used), MOIETY_OK);
     }},
    {"ClimbTheLadder", ClimbTheLadder},
    {"Share", Share},
    {"MakeAnotherPool", MakeAnotherPool},
    {"EndAThread", EndAThread},
    {"OpenAnotherScope", OpenAnotherScope},
};

struct Case {
    Row row;
    CUstreamCaptureMode mode;
    unsigned stream_flags;
    Kind kind;
};

static void PrintTo(const Case &one, std::ostream *out)
{
    *out << one.row.name;
}

static std::vector<Case> Cases()
{
    std::vector<Case> cases;
    for (const Row &row : kRows)
        for (CUstreamCaptureMode mode : {CU_STREAM_CAPTURE_MODE_GLOBAL,
                                         CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
                                         CU_STREAM_CAPTURE_MODE_RELAXED})
            for (unsigned flags : {unsigned{CU_STREAM_NON_BLOCKING},
                                   unsigned{CU_STREAM_DEFAULT}})
                cases.push_back({row, mode, flags, kKinds[0]});
    // The others in the mode that forbids most.
    for (const Row &row : kRows)
        for (const Kind &kind : {kKinds[1], kKinds[2]})
            // Only exportable pools share.
            if (row.act != Share)
                cases.push_back({row, CU_STREAM_CAPTURE_MODE_GLOBAL,
                                 CU_STREAM_NON_BLOCKING, kind});
    return cases;
}

static std::string NameOfCase(const ::testing::TestParamInfo<Case> &info)
{
    const Case &one = info.param;
    std::string name = one.row.name;
    name += one.mode == CU_STREAM_CAPTURE_MODE_GLOBAL         ? "Global"
            : one.mode == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL ? "ThreadLocal"
                                                              : "Relaxed";
    name += one.stream_flags == CU_STREAM_DEFAULT ? "Blocking" : "NonBlocking";
    return name + one.kind.name;
}

class CaptureInAScope : public ::testing::TestWithParam<Case>
{
  protected:
    void SetUp() override
    {
        MUST(cu.StreamCreate(&captured_, GetParam().stream_flags));
        ASSERT_EQ(moiety_scope_begin(objects_.pool, captured_, &scope_),
                  MOIETY_OK);
        capturer_.Do([this] {
            MUST(cu.StreamBeginCapture(captured_, GetParam().mode));
            block_ = objects_.Take(kSmall, captured_);
            Write(captured_, block_, kSmall, kOld);
        });
    }

    void TearDown() override
    {
        ASSERT_EQ(moiety_scope_release(scope_), MOIETY_OK);
        cu.StreamDestroy(captured_);
    }

    // Goes on with the capture, and ends it.
    CUresult End()
    {
        CUresult code = CUDA_SUCCESS;
        capturer_.Do([&] {
            objects_.Free(block_, captured_);
            block_ = objects_.Take(kLarge, captured_);
            Write(captured_, block_, kSmall, kNew);
            objects_.Free(block_, captured_);
            CUgraph graph = nullptr;
            code = cu.StreamEndCapture(captured_, &graph);
            if (graph != nullptr)
                cu.GraphDestroy(graph);
        });
        return code;
    }

    CUstream captured_ = nullptr;
    moiety_scope scope_ = 0;
    moiety_devptr block_ = 0;
    Objects objects_{GetParam().kind.flags};
    Worker capturer_;
};
INSTANTIATE_TEST_SUITE_P(Calls, CaptureInAScope, ::testing::ValuesIn(Cases()),
                         NameOfCase);

TEST_P(CaptureInAScope, IsNotBrokenBy)
{
    GetParam().row.act(objects_);
    EXPECT_EQ(End(), CUDA_SUCCESS);
    ASSERT_EQ(moiety_scope_end(scope_), MOIETY_OK);
    moiety_pool_stats stats = {};
    stats.struct_size = sizeof stats;
    ASSERT_EQ(moiety_pool_get_stats(objects_.pool, &stats), MOIETY_OK);
    EXPECT_EQ(stats.captures_disturbed, 0u);
}

} // namespace streams_test
