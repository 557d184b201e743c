/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "bench/subjects/replay_streams.h"

#include "bench/base/device.h"

const char *replay_streams_start(const struct replay_setup *setup)
{
    return setup->stream_count > BENCH_STREAMS_MAX
               ? "the trace has more than 1024 streams"
               : bench_device_start(setup->stream_count);
}
