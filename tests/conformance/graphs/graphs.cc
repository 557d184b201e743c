// SPDX-License-Identifier: Apache-2.0
//
// Graphs that come from captures: look at, instantiate, launch.
#include <gtest/gtest.h>

#include "tests/conformance/checks.h"
#include "tests/conformance/device.h"
#include "tests/conformance/driver_under_test.h"

namespace conformance
{

using Graphs = OnDevice;

namespace
{

void Increment(void *argument)
{
    (*static_cast<int *>(argument))++;
}

/* A graph of a memset of `word` to `value` and, after it, Increment. */
CUgraph CaptureMemsetAndCount(const PinnedBlock &word, unsigned char value,
                              int *count)
{
    Stream stream;
    CUgraph graph = nullptr;
    MUST(cu.StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    MUST(cu.MemsetD8Async(word.address, value, 4096, stream));
    MUST(cu.LaunchHostFunc(stream, Increment, count));
    MUST(cu.StreamEndCapture(stream, &graph));
    return graph;
}

} // namespace

TEST_F(Graphs, NodesAreWhatWasCaptured)
{
    PinnedBlock word(4096);
    int count = 0;
    CUgraph graph = CaptureMemsetAndCount(word, 1, &count);
    CUgraphNode nodes[8] = {};
    size_t node_count = 0;
    EXPECT_SUCCESS("graph.node-count",
                   cu.GraphGetNodes(graph, nullptr, &node_count));
    EXPECT_SAME("graph.node-count.value", node_count, size_t{2});
    node_count = 8;
    EXPECT_SUCCESS("graph.nodes", cu.GraphGetNodes(graph, nodes, &node_count));
    int memsets = 0, hosts = 0;
    for (size_t i = 0; i < node_count && i < 8; i++) {
        CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
        MUST(cu.GraphNodeGetType(nodes[i], &type));
        memsets += type == CU_GRAPH_NODE_TYPE_MEMSET;
        hosts += type == CU_GRAPH_NODE_TYPE_HOST;
    }
    EXPECT_SAME("graph.nodes.memsets", memsets, 1);
    EXPECT_SAME("graph.nodes.host-functions", hosts, 1);
    MUST(cu.GraphDestroy(graph));
}

TEST_F(Graphs, LaunchRepeatsTheWork)
{
    PinnedBlock word(4096);
    int count = 0;
    CUgraph graph = CaptureMemsetAndCount(word, 6, &count);
    CUgraphExec executable = nullptr;
    EXPECT_SUCCESS("graph.instantiate",
                   cu.GraphInstantiateWithFlags(&executable, graph, 0));
    EXPECT_SUCCESS("graph.destroy-before-launch", cu.GraphDestroy(graph));
    EXPECT_SAME("graph.nothing-ran-yet", int{word.bytes[0]}, 0);
    Stream stream;
    StreamHold hold(stream);
    EXPECT_SUCCESS("graph.launch", cu.GraphLaunch(executable, stream));
    MUST(cu.GraphLaunch(executable, stream));
    Pause(50);
    EXPECT_SAME("graph.launch.waits-for-earlier-work", int{word.bytes[0]}, 0);
    hold.Release();
    MUST(cu.StreamSynchronize(stream));
    EXPECT_SAME("graph.launch.memset-ran", int{word.bytes[4095]}, 6);
    EXPECT_SAME("graph.launch.host-function-ran-each-time", count, 2);
    EXPECT_SUCCESS("graph.exec-destroy", cu.GraphExecDestroy(executable));
}

TEST_F(Graphs, ForksKeepTheirOrder)
{
    PinnedBlock word(4096);
    Event fork, join;
    Stream origin, forked;
    CUgraph graph = nullptr;
    CUgraphExec executable = nullptr;
    MUST(cu.StreamBeginCapture(origin, CU_STREAM_CAPTURE_MODE_RELAXED));
    MUST(cu.MemsetD8Async(word.address, 1, 4096, origin));
    MUST(cu.EventRecord(fork, origin));
    MUST(cu.StreamWaitEvent(forked, fork, 0));
    MUST(cu.MemsetD8Async(word.address, 2, 2048, forked));
    MUST(cu.EventRecord(join, forked));
    MUST(cu.StreamWaitEvent(origin, join, 0));
    MUST(cu.MemsetD8Async(word.address, 3, 1024, origin));
    MUST(cu.StreamEndCapture(origin, &graph));
    MUST(cu.GraphInstantiateWithFlags(&executable, graph, 0));
    MUST(cu.GraphLaunch(executable, origin));
    MUST(cu.StreamSynchronize(origin));
    EXPECT_SAME("graph.fork.last-node", int{word.bytes[0]}, 3);
    EXPECT_SAME("graph.fork.forked-node", int{word.bytes[1024]}, 2);
    EXPECT_SAME("graph.fork.first-node", int{word.bytes[2048]}, 1);
    MUST(cu.GraphExecDestroy(executable));
    MUST(cu.GraphDestroy(graph));
}

TEST_F(Graphs, EmptyOnes)
{
    CUgraph graph = nullptr;
    CUgraphExec executable = nullptr;
    size_t node_count = 99;
    Stream stream;
    EXPECT_SUCCESS("graph.create", cu.GraphCreate(&graph, 0));
    MUST(cu.GraphGetNodes(graph, nullptr, &node_count));
    EXPECT_SAME("graph.create.is-empty", node_count, size_t{0});
    EXPECT_SUCCESS("graph.instantiate.empty",
                   cu.GraphInstantiateWithFlags(&executable, graph, 0));
    EXPECT_SUCCESS("graph.launch.empty", cu.GraphLaunch(executable, stream));
    MUST(cu.StreamSynchronize(stream));
    MUST(cu.GraphExecDestroy(executable));
    MUST(cu.GraphDestroy(graph));
}

TEST_F(Graphs, BadArguments)
{
    CUgraph graph = nullptr;
    CUgraphExec executable = nullptr;
    Stream stream;
    MUST(cu.GraphCreate(&graph, 0));
    EXPECT_INVALID("graph.create.null", cu.GraphCreate(nullptr, 0));
    EXPECT_INVALID("graph.create.bad-flags", cu.GraphCreate(&graph, 1));
    EXPECT_INVALID("graph.instantiate.null-graph",
                   cu.GraphInstantiateWithFlags(&executable, nullptr, 0));
    EXPECT_INVALID("graph.launch.null", cu.GraphLaunch(nullptr, stream));
    EXPECT_INVALID("graph.destroy.null", cu.GraphDestroy(nullptr));
    EXPECT_INVALID("graph.exec-destroy.null", cu.GraphExecDestroy(nullptr));
    EXPECT_SUCCESS("graph.destroy", cu.GraphDestroy(graph));
}

} // namespace conformance
