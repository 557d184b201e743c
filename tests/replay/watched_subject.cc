// SPDX-License-Identifier: Apache-2.0
#include "tests/replay/watched_subject.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "tests/replay/segment_ledger.h"

namespace replay_test
{
namespace
{

// Looking at a subject's segments costs as much as replaying does.
constexpr uint64_t kCallsBetweenLooks = 64;

std::mutex lock;
const struct subject *inner;
subject_setup setup;
Watch watch;
BlockLedger live;
uint64_t calls;

const char *Start(const subject_setup *now)
{
    setup = *now;
    live.blocks.clear();
    return inner->start(now);
}

uint64_t Alloc(uint32_t thread, size_t size_bytes, uint32_t stream)
{
    // Before the lock: calls of several threads are to meet inside.
    const uint64_t address = inner->alloc(thread, size_bytes, stream);
    const std::lock_guard<std::mutex> guard(lock);
    watch.allocs += address != 0;
    watch.failed += address == 0;
    if (address)
        watch.overlaps += !live.Add(address, size_bytes);
    return address;
}

void Free(uint32_t thread, uint64_t address, size_t size_bytes, uint32_t stream)
{
    {
        const std::lock_guard<std::mutex> guard(lock);
        watch.frees++;
        live.blocks.erase(address);
    }
    inner->free(thread, address, size_bytes, stream);
}

uint64_t KnownOr0(uint64_t bytes)
{
    return bytes == SUBJECT_UNKNOWN ? 0 : bytes;
}

SegmentLedger SegmentsNow()
{
    SegmentLedger now;
    inner->each_segment(
        [](void *context, uint64_t address, uint64_t size_bytes) {
            auto *ledger = static_cast<SegmentLedger *>(context);
            ledger->segments.emplace(address, size_bytes);
            ledger->reserved_bytes += size_bytes;
        },
        &now);
    return now;
}

void LookAtSegments(const subject_memory &memory)
{
    const SegmentLedger segments = SegmentsNow();
    watch.unequal += segments.reserved_bytes != memory.reserved_bytes;
    for (const auto &[address, size_bytes] : live.blocks)
        watch.outside += !segments.Contains(address, size_bytes);
}

// The engine measures in serial mode alone, after each allocation.
void Measure(subject_memory *out)
{
    inner->measure(out);
    if (out->reserved_bytes == SUBJECT_UNKNOWN)
        return;
    const uint64_t known_bytes = KnownOr0(out->handed_bytes) +
                                 KnownOr0(out->cached_bytes) +
                                 KnownOr0(out->retiring_bytes);
    watch.unequal += known_bytes > out->reserved_bytes;
    watch.over_limit +=
        setup.limit_bytes && out->reserved_bytes > setup.limit_bytes;
    if (inner->each_segment && calls++ % kCallsBetweenLooks == 0)
        LookAtSegments(*out);
}

void Stop()
{
    watch.live_at_stop += live.blocks.size();
    inner->stop();
}

} // namespace

const struct subject *SubjectNamed(const char *name)
{
    for (size_t i = 0; replay_subjects[i]; i++)
        if (std::strcmp(replay_subjects[i]->name, name) == 0)
            return replay_subjects[i];
    std::fprintf(stderr, "there is no subject %s\n", name);
    std::abort();
}

const struct subject *Watched(const struct subject *subject)
{
    static struct subject watched;
    inner = subject;
    watch = {};
    calls = 0;
    watched = *subject;
    watched.start = Start;
    watched.alloc = Alloc;
    watched.free = Free;
    watched.measure = Measure;
    watched.reserved_bytes = nullptr; // so that all is measured each time
    watched.stop = Stop;
    return &watched;
}

Watch WatchNow()
{
    return watch;
}

} // namespace replay_test
