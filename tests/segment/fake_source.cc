// SPDX-License-Identifier: Apache-2.0
#include "tests/segment/fake_source.h"

namespace segment_test
{

FakeSource::FakeSource() = default;

moiety_source FakeSource::Table()
{
    moiety_source table = {};
    table.struct_size = sizeof(table);
    table.flags = flags;
    table.name = "fake";
    table.context = this;
    table.reserve = Reserve;
    table.release = Release;
    table.granularity_bytes = granularity_bytes;
    return table;
}

std::multimap<uint64_t, uint64_t> FakeSource::Live()
{
    std::lock_guard<std::mutex> guard(lock_);
    return live_;
}

std::vector<uint64_t> FakeSource::Asked()
{
    std::lock_guard<std::mutex> guard(lock_);
    return asked_;
}

std::string FakeSource::Complaint()
{
    std::lock_guard<std::mutex> guard(lock_);
    return complaint_;
}

// The lowest address with room, a multiple of 2 MiB plus what is set.
uint64_t FakeSource::FindLocked(uint64_t size_bytes) const
{
    constexpr uint64_t kPage = 2 * kMiB;
    uint64_t at = first_address + misaligned_bytes;
    for (const auto &piece : live_) {
        if (piece.first >= at + size_bytes)
            break;
        uint64_t end = piece.first + piece.second;
        if (end > at)
            at = (end + kPage - 1) / kPage * kPage + misaligned_bytes;
    }
    return at;
}

moiety_status FakeSource::ReserveLocked(uint64_t size_bytes, moiety_devptr *out)
{
    asked_.push_back(size_bytes);
    if (failing_reserve && --failing_reserve == 0)
        return failure;
    if (size_bytes > capacity_bytes - live_bytes_)
        return MOIETY_E_NO_DEVICE_MEMORY;
    uint64_t address = has_forced ? forced_address : FindLocked(size_bytes);
    bool is_nothing = has_forced && address == 0;
    has_forced = false;
    *out = address;
    if (is_nothing)
        return MOIETY_OK;
    live_.emplace(address, size_bytes);
    live_bytes_ += size_bytes;
    return MOIETY_OK;
}

moiety_status FakeSource::Reserve(void *self, size_t size_bytes,
                                  moiety_devptr *out)
{
    auto *source = static_cast<FakeSource *>(self);
    if (source->in_reserve)
        source->in_reserve(source->in_reserve_argument);
    std::lock_guard<std::mutex> guard(source->lock_);
    return source->ReserveLocked(size_bytes, out);
}

moiety_status FakeSource::Release(void *self, moiety_devptr address,
                                  size_t size_bytes)
{
    auto *source = static_cast<FakeSource *>(self);
    std::lock_guard<std::mutex> guard(source->lock_);
    if (source->failing_release && --source->failing_release == 0)
        return source->failure;
    auto range = source->live_.equal_range(address);
    for (auto at = range.first; at != range.second; ++at) {
        if (at->second != size_bytes)
            continue;
        source->live_.erase(at);
        source->live_bytes_ -= size_bytes;
        return MOIETY_OK;
    }
    source->complaint_ =
        "released what is not out: " + std::to_string(size_bytes) +
        " bytes at " + std::to_string(address);
    return MOIETY_E_INVALID;
}

} // namespace segment_test
