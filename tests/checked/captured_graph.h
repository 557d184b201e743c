/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A graph that a stream captures, on the stand-in.
 */
#ifndef MOIETY_TESTS_CHECKED_CAPTURED_GRAPH_H_
#define MOIETY_TESTS_CHECKED_CAPTURED_GRAPH_H_

#include <gtest/gtest.h>

#include "pool/driver/cuda_abi.h"
#include "tests/pool/pool_under_test.h"

namespace checked_test
{

// Fills with a byte, behind what the stream has; a node if that captures.
inline void Set(moiety_devptr address, unsigned char byte, size_t size_bytes,
                moiety_stream stream)
{
    EXPECT_EQ(
        CUDA_SUCCESS,
        (pool_test::Get<CUresult(CUdeviceptr, unsigned char, size_t, CUstream)>(
            "cuMemsetD8Async")(address, byte, size_bytes, stream)));
}

class CapturedGraph
{
  public:
    // Begins the capture.
    explicit CapturedGraph(moiety_stream stream) : stream_(stream)
    {
        EXPECT_EQ(CUDA_SUCCESS,
                  (pool_test::Get<CUresult(CUstream, CUstreamCaptureMode)>(
                      "cuStreamBeginCapture_v2")(
                      stream, CU_STREAM_CAPTURE_MODE_GLOBAL)));
    }
    ~CapturedGraph()
    {
        if (exec_) {
            EXPECT_EQ(CUDA_SUCCESS, pool_test::Get<CUresult(CUgraphExec)>(
                                        "cuGraphExecDestroy")(exec_));
        }
    }
    CapturedGraph(const CapturedGraph &) = delete;
    CapturedGraph &operator=(const CapturedGraph &) = delete;

    // Ends the capture. How many nodes there are.
    size_t End()
    {
        CUgraph graph = nullptr;
        size_t count = 0;
        EXPECT_EQ(CUDA_SUCCESS, (pool_test::Get<CUresult(CUstream, CUgraph *)>(
                                    "cuStreamEndCapture")(stream_, &graph)));
        EXPECT_EQ(CUDA_SUCCESS,
                  (pool_test::Get<CUresult(CUgraph, CUgraphNode *, size_t *)>(
                      "cuGraphGetNodes")(graph, nullptr, &count)));
        EXPECT_EQ(CUDA_SUCCESS,
                  (pool_test::Get<CUresult(CUgraphExec *, CUgraph,
                                           unsigned long long)>(
                      "cuGraphInstantiateWithFlags")(&exec_, graph, 0)));
        EXPECT_EQ(CUDA_SUCCESS,
                  pool_test::Get<CUresult(CUgraph)>("cuGraphDestroy")(graph));
        return count;
    }

    void Launch(moiety_stream stream)
    {
        EXPECT_EQ(CUDA_SUCCESS,
                  (pool_test::Get<CUresult(CUgraphExec, CUstream)>(
                      "cuGraphLaunch")(exec_, stream)));
    }

  private:
    CUstream stream_;
    CUgraphExec exec_ = nullptr;
};

} // namespace checked_test

#endif
