// SPDX-License-Identifier: Apache-2.0
//
// A graph that was captured with memory of the pool runs a thousand times while
// other threads write patterns into all that the pool gives them.
#include <atomic>
#include <future>
#include <vector>

#include <gtest/gtest.h>

#include "moiety/scope.h"
#include "tests/streams/device.h"
#include "tests/streams/pool_under_test.h"
#include "tests/support/tools/pools.h"

namespace streams_test
{

constexpr size_t kBytes = size_t{4} << 10;
constexpr int kReplays = 1000;
constexpr int kChurners = 3;
constexpr uint32_t kInput = 0x1234abcdu;
constexpr uint32_t kForeign = 0xbadbadbau;

// A captured graph, ready to run.
class Graph
{
  public:
    // Ends the capture on this stream.
    explicit Graph(CUstream stream)
    {
        CUgraph graph = nullptr;
        MUST(cu.StreamEndCapture(stream, &graph));
        CUresult code = cu.GraphInstantiateWithFlags(&handle_, graph, 0);
        cu.GraphDestroy(graph);
        MUST(code);
    }
    ~Graph()
    {
        cu.GraphExecDestroy(handle_);
    }
    Graph(const Graph &) = delete;
    Graph &operator=(const Graph &) = delete;
    void Launch(CUstream stream)
    {
        MUST(cu.GraphLaunch(handle_, stream));
    }

  private:
    CUgraphExec handle_ = nullptr;
};

static void Copy(CUstream stream, CUdeviceptr to, CUdeviceptr from)
{
    MUST(cu.MemcpyDtoDAsync(to, from, kBytes, stream));
}

// A pool with room for all that the tests do, and the graph's input and output.
class Replay : public ::testing::Test
{
  protected:
    Replay()
    {
        moiety_pool_options options = driver_options();
        options.limit_bytes = size_t{4} << 20;
        options.first_segment_bytes = size_t{4} << 20;
        options.largest_segment_bytes = size_t{4} << 20;
        options.wait_ms = MOIETY_WAIT_NONE;
        EXPECT_EQ(moiety_pool_create(&options, &pool_), MOIETY_OK);
        input_ = Take(MOIETY_STREAM_ANY);
        output_ = Take(MOIETY_STREAM_ANY);
    }

    ~Replay() override
    {
        cu.CtxSynchronize();
        EXPECT_EQ(moiety_free(pool_, input_, MOIETY_STREAM_DONE), MOIETY_OK);
        EXPECT_EQ(moiety_free(pool_, output_, MOIETY_STREAM_DONE), MOIETY_OK);
        moiety_leaks leaks = {};
        leaks.struct_size = sizeof leaks;
        EXPECT_EQ(moiety_pool_destroy(pool_, &leaks), MOIETY_OK);
        EXPECT_EQ(leaks.block_count, 0u);
    }

    CUdeviceptr Take(moiety_stream stream)
    {
        moiety_devptr block = 0;
        EXPECT_EQ(moiety_alloc(pool_, kBytes, stream, &block), MOIETY_OK)
            << moiety_last_error_message();
        return block;
    }

    // Nodes that carry the input to the output by way of blocks that live
    // during the capture only.
    void CaptureWork(moiety_stream stream)
    {
        CUdeviceptr first = Take(stream);
        Copy(stream, first, input_);
        CUdeviceptr second = Take(stream);
        Write(stream, second, kBytes, 0);
        Copy(stream, second, first);
        inner_ = second;
        Free(first, stream);
        // The first block again: its node comes after those before.
        CUdeviceptr third = Take(stream);
        Copy(stream, third, second);
        Free(second, stream);
        Copy(stream, output_, third);
        Free(third, stream);
    }

    void Free(CUdeviceptr block, moiety_stream stream)
    {
        EXPECT_EQ(moiety_free(pool_, block, stream), MOIETY_OK)
            << moiety_last_error_message();
    }

    // Allocates, writes and frees until it is told to stop.
    std::future<void> Churn(Worker *worker, std::atomic<bool> *is_over)
    {
        return worker->Start([this, is_over] {
            Stream stream;
            while (!is_over->load()) {
                std::vector<CUdeviceptr> blocks(16);
                for (CUdeviceptr &block : blocks) {
                    block = Take(stream);
                    EXPECT_NE(block, inner_);
                    Write(stream, block, kBytes, kForeign);
                }
                for (CUdeviceptr block : blocks)
                    Free(block, stream);
                MUST(cu.StreamSynchronize(stream));
            }
            EXPECT_EQ(moiety_pool_retire_stream(pool_, stream), MOIETY_OK);
        });
    }

    moiety_pool *pool_ = nullptr;
    CUdeviceptr input_ = 0, output_ = 0;
    CUdeviceptr inner_ = 0; // a block that only the graph uses
    Stream captured_, launched_;
};

TEST_F(Replay, IsRightEachTimeWhileOthersUseThePool)
{
    moiety_scope scope = 0;
    ASSERT_EQ(moiety_scope_begin(pool_, captured_, &scope), MOIETY_OK);
    MUST(cu.StreamBeginCapture(captured_, CU_STREAM_CAPTURE_MODE_GLOBAL));
    CaptureWork(captured_);
    Graph graph(captured_);
    ASSERT_EQ(moiety_scope_end(scope), MOIETY_OK);

    std::atomic<bool> is_over{false};
    Worker workers[kChurners];
    std::vector<std::future<void>> churns;
    for (Worker &worker : workers)
        churns.push_back(Churn(&worker, &is_over));
    int wrong = 0;
    for (uint32_t i = 0; i < kReplays; i++) {
        Write(launched_, input_, kBytes, kInput + i);
        graph.Launch(launched_);
        wrong += !Holds(launched_, output_, kBytes, kInput + i);
    }
    is_over = true;
    for (std::future<void> &churn : churns)
        churn.get();
    EXPECT_EQ(wrong, 0);
    EXPECT_EQ(moiety_scope_release(scope), MOIETY_OK);
}

// All that the pool has left belongs to others: the graph writes into none of it.
TEST_F(Replay, WritesIntoNothingThatOthersGot)
{
    moiety_scope scope = 0;
    ASSERT_EQ(moiety_scope_begin(pool_, captured_, &scope), MOIETY_OK);
    MUST(cu.StreamBeginCapture(captured_, CU_STREAM_CAPTURE_MODE_GLOBAL));
    CaptureWork(captured_);
    Graph graph(captured_);
    ASSERT_EQ(moiety_scope_end(scope), MOIETY_OK);

    std::vector<moiety_devptr> others(1);
    while (moiety_alloc(pool_, kBytes, launched_, &others.back()) ==
           MOIETY_OK) {
        Write(launched_, others.back(), kBytes, kForeign);
        others.push_back(0);
    }
    others.pop_back();
    Write(launched_, input_, kBytes, kInput);
    graph.Launch(launched_);
    EXPECT_TRUE(Holds(launched_, output_, kBytes, kInput));
    for (moiety_devptr other : others)
        ASSERT_TRUE(Holds(launched_, other, kBytes, kForeign));
    EXPECT_GT(others.size(), 900u);
    for (moiety_devptr other : others)
        Free(other, launched_);
    EXPECT_EQ(moiety_scope_release(scope), MOIETY_OK);
}

// A node that reads a block which was allocated before the capture, and freed
// after it, with no scope. What the graph reads is what the next owner wrote.
TEST_F(Replay, IsWrongWithoutAScope)
{
    CUdeviceptr inner = Take(captured_);
    Guard guard;
    MUST(cu.StreamBeginCapture(captured_, CU_STREAM_CAPTURE_MODE_GLOBAL));
    Copy(captured_, output_, inner);
    Graph graph(captured_);
    guard.End();
    Write(captured_, inner, kBytes, kInput);
    Free(inner, captured_);

    CUdeviceptr stolen = Take(captured_);
    ASSERT_EQ(stolen, inner);
    Write(captured_, stolen, kBytes, kForeign);
    MUST(cu.StreamSynchronize(captured_));
    graph.Launch(launched_);
    EXPECT_TRUE(Holds(launched_, output_, kBytes, kForeign));
    Free(stolen, captured_);
}

// The same, but with the block freed in the capture's scope.
TEST_F(Replay, KeepsWhatWasAllocatedBeforeTheCaptureAndFreedInIt)
{
    CUdeviceptr inner = Take(captured_);
    Write(captured_, inner, kBytes, kInput);
    moiety_scope scope = 0;
    ASSERT_EQ(moiety_scope_begin(pool_, captured_, &scope), MOIETY_OK);
    MUST(cu.StreamBeginCapture(captured_, CU_STREAM_CAPTURE_MODE_GLOBAL));
    Copy(captured_, output_, inner);
    Free(inner, captured_);
    Graph graph(captured_);
    ASSERT_EQ(moiety_scope_end(scope), MOIETY_OK);

    CUdeviceptr other = Take(captured_);
    ASSERT_NE(other, inner);
    Write(captured_, other, kBytes, kForeign);
    MUST(cu.StreamSynchronize(captured_));
    graph.Launch(launched_);
    EXPECT_TRUE(Holds(launched_, output_, kBytes, kInput));
    Free(other, captured_);
    EXPECT_EQ(moiety_scope_release(scope), MOIETY_OK);
}

} // namespace streams_test
