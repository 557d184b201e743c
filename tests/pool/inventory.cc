// SPDX-License-Identifier: Apache-2.0
#include "tests/pool/inventory.h"

#include <gtest/gtest.h>

#include "pool/driver/cuda_abi.h"
#include "tests/pool/pool_under_test.h"

namespace pool_test
{

Inventory::Inventory()
{
    Look();
}

void Inventory::Look()
{
    allocations_ = Live("allocations");
    host_ = Live("host");
    events_ = Live("events");
    streams_ = Live("streams");
    contexts_ = Live("contexts");
    imports_ = Live("ipc");
    event_calls_ = Calls("cuEventCreate") - Calls("cuEventDestroy");
    stream_calls_ = Calls("cuStreamCreate") - Calls("cuStreamDestroy");
}

void Inventory::ExpectUnchanged(int refusals)
{
    Inventory before = *this;
    Look();
    // Both wrap around: no more creations than destructions.
    bool is_event_refused = int64_t(event_calls_ - before.event_calls_) <= 0;
    bool is_stream_refused = int64_t(stream_calls_ - before.stream_calls_) <= 0;
    EXPECT_EQ(before.allocations_, allocations_);
    EXPECT_EQ(before.host_, host_);
    EXPECT_LE(events_, before.events_ + (is_event_refused ? refusals : 0));
    EXPECT_LE(streams_, before.streams_ + (is_stream_refused ? refusals : 0));
    EXPECT_EQ(before.contexts_, contexts_);
    EXPECT_EQ(before.imports_, imports_);
    EXPECT_EQ(PrimaryContext(), Current());
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
    Get<CUresult(CUstreamCaptureMode *)>("cuThreadExchangeStreamCaptureMode")(
        &mode);
    EXPECT_EQ(CU_STREAM_CAPTURE_MODE_GLOBAL, mode);
}

} // namespace pool_test
