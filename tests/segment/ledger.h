/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What was told of segments that come and go, and what is wrong with it: each that
 * was added is released once, ids never repeat, and no two that are there overlap.
 * Any thread.
 */
#ifndef MOIETY_TESTS_SEGMENT_LEDGER_H_
#define MOIETY_TESTS_SEGMENT_LEDGER_H_

#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>

namespace segment_test
{

class Ledger
{
  public:
    void Add(uint64_t id, uint64_t address, uint64_t size_bytes)
    {
        std::lock_guard<std::mutex> guard(lock_);
        added_count_++;
        if (!ids_.insert(id).second)
            Note("told twice of", id);
        auto next = live_.lower_bound(address);
        if (next != live_.end() && next->first < address + size_bytes)
            Note("overlaps the next one:", id);
        if (next != live_.begin()) {
            auto last = std::prev(next);
            if (last->first + last->second.size_bytes > address)
                Note("overlaps the last one:", id);
        }
        live_[address] = {id, size_bytes};
    }

    void Release(uint64_t id, uint64_t address, uint64_t size_bytes)
    {
        std::lock_guard<std::mutex> guard(lock_);
        released_count_++;
        auto found = live_.find(address);
        if (found == live_.end() || found->second.id != id ||
            found->second.size_bytes != size_bytes) {
            Note("released, and was not there:", id);
            return;
        }
        live_.erase(found);
    }

    // Whether all of a range is in segments that are there.
    bool Has(uint64_t address, uint64_t size_bytes)
    {
        std::lock_guard<std::mutex> guard(lock_);
        uint64_t end = address + size_bytes;
        while (address < end) {
            auto next = live_.upper_bound(address);
            if (next == live_.begin())
                return false;
            --next;
            if (next->first + next->second.size_bytes <= address)
                return false;
            address = next->first + next->second.size_bytes;
        }
        return true;
    }

    // The id of the one that begins there; UINT64_MAX: none does.
    uint64_t IdAt(uint64_t address)
    {
        std::lock_guard<std::mutex> guard(lock_);
        auto found = live_.find(address);
        return found == live_.end() ? UINT64_MAX : found->second.id;
    }

    uint64_t LiveBytes()
    {
        std::lock_guard<std::mutex> guard(lock_);
        uint64_t bytes = 0;
        for (const auto &each : live_)
            bytes += each.second.size_bytes;
        return bytes;
    }

    uint64_t AddedCount()
    {
        std::lock_guard<std::mutex> guard(lock_);
        return added_count_;
    }

    uint64_t ReleasedCount()
    {
        std::lock_guard<std::mutex> guard(lock_);
        return released_count_;
    }

    void Complain(const std::string &what, uint64_t id)
    {
        std::lock_guard<std::mutex> guard(lock_);
        Note(what, id);
    }

    // "" or all that was wrong, one line each.
    std::string Complaint()
    {
        std::lock_guard<std::mutex> guard(lock_);
        return complaint_;
    }

  private:
    void Note(const std::string &what, uint64_t id)
    {
        complaint_ += what + " " + std::to_string(id) + "\n";
    }

    struct Segment {
        uint64_t id;
        uint64_t size_bytes;
    };

    std::mutex lock_;
    std::map<uint64_t, Segment> live_; // by address
    std::set<uint64_t> ids_;
    uint64_t added_count_ = 0;
    uint64_t released_count_ = 0;
    std::string complaint_;
};

} // namespace segment_test

#endif
