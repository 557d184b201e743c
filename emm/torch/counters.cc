/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Relaxed throughout: numbers that are read beside threads which change them
 * are of slightly different moments, and order nothing.
 */
#include "counters.h"

#include "pools.h"

#include <algorithm>
#include <array>

namespace moiety_torch
{

/** What a thread has of each device's counters, until it ends. */
struct Seat {
    std::array<Counters::Part *, kDevicesMax> parts = {};

    ~Seat();
};

namespace
{

std::array<Counters, kDevicesMax> &all()
{
    /* Never destroyed: tensors are freed while the process exits. */
    static auto *counters = new std::array<Counters, kDevicesMax>;
    return *counters;
}

thread_local Seat seat;

void add(std::atomic<int64_t> &sum, int64_t amount)
{
    /* Relaxed, and no read-modify-write: one thread writes. */
    sum.store(sum.load(std::memory_order_relaxed) + amount,
              std::memory_order_relaxed);
}

void raise(std::atomic<int64_t> &peak, int64_t value)
{
    /* Relaxed: a number. */
    int64_t before = peak.load(std::memory_order_relaxed);
    while (before < value && !peak.compare_exchange_weak(
                                 before, value, std::memory_order_relaxed)) {
    }
}

} // namespace

Counters &counters_of(int device)
{
    return all()[static_cast<size_t>(device)];
}

Seat::~Seat()
{
    for (size_t i = 0; i < parts.size(); i++) {
        if (parts[i])
            all()[i].leave(parts[i]);
        /* What is freed later in this thread's end takes a part again. */
        parts[i] = nullptr;
    }
}

Counters::Part *Counters::take_part()
{
    std::lock_guard<std::mutex> guard(lock_);
    threads_.fetch_add(1, std::memory_order_relaxed);
    for (auto &part : parts_) {
        if (!part->is_taken) {
            part->is_taken = true;
            return part.get();
        }
    }
    parts_.push_back(std::make_unique<Part>());
    parts_.back()->is_taken = true;
    return parts_.back().get();
}

void Counters::leave(Part *part)
{
    publish(part);
    std::lock_guard<std::mutex> guard(lock_);
    part->is_taken = false;
    threads_.fetch_sub(1, std::memory_order_relaxed);
}

Counters::Part *Counters::mine()
{
    Part *&part = seat.parts[static_cast<size_t>(this - all().data())];
    if (!part)
        part = take_part();
    return part;
}

void Counters::publish(Part *part)
{
    int64_t bytes = live_bytes_.fetch_add(part->unpublished_bytes,
                                          std::memory_order_relaxed) +
                    part->unpublished_bytes;
    int64_t blocks = live_blocks_.fetch_add(part->unpublished_blocks,
                                            std::memory_order_relaxed) +
                     part->unpublished_blocks;
    part->unpublished_bytes = 0;
    part->unpublished_blocks = 0;
    raise(peak_bytes_, bytes);
    raise(peak_blocks_, blocks);
}

void Counters::settle(Part *part, int64_t bytes, int64_t blocks)
{
    part->unpublished_bytes += bytes;
    part->unpublished_blocks += blocks;
    if (threads_.load(std::memory_order_relaxed) == 1 ||
        is_exact_.load(std::memory_order_relaxed) ||
        part->unpublished_bytes >= kPeakStepBytes ||
        part->unpublished_bytes <= -kPeakStepBytes)
        publish(part);
}

void Counters::note_allocation(int64_t bytes)
{
    Part *part = mine();
    add(part->allocations, 1);
    add(part->allocated_bytes, bytes);
    settle(part, bytes, 1);
}

void Counters::note_free(int64_t bytes)
{
    Part *part = mine();
    add(part->frees, 1);
    add(part->freed_bytes, bytes);
    settle(part, -bytes, -1);
}

Sums Counters::sum() const
{
    Sums sums;
    for (const auto &part : parts_) {
        sums.allocations += part->allocations.load(std::memory_order_relaxed);
        sums.frees += part->frees.load(std::memory_order_relaxed);
        sums.allocated_bytes +=
            part->allocated_bytes.load(std::memory_order_relaxed);
        sums.freed_bytes += part->freed_bytes.load(std::memory_order_relaxed);
    }
    sums.synchronizations = synchronizations_.load(std::memory_order_relaxed);
    sums.blocks = sums.allocations - sums.frees;
    sums.bytes = sums.allocated_bytes - sums.freed_bytes;
    return sums;
}

Sums Counters::read() const
{
    std::lock_guard<std::mutex> guard(lock_);
    Sums sums = sum();
    sums.peak_bytes =
        std::max(sums.bytes, peak_bytes_.load(std::memory_order_relaxed));
    sums.peak_blocks =
        std::max(sums.blocks, peak_blocks_.load(std::memory_order_relaxed));
    sums.allocations -= base_.allocations;
    sums.frees -= base_.frees;
    sums.allocated_bytes -= base_.allocated_bytes;
    sums.freed_bytes -= base_.freed_bytes;
    sums.synchronizations -= base_.synchronizations;
    return sums;
}

void Counters::reset_accumulated()
{
    std::lock_guard<std::mutex> guard(lock_);
    base_ = sum();
}

void Counters::reset_peak()
{
    std::lock_guard<std::mutex> guard(lock_);
    Sums sums = sum();
    peak_bytes_.store(sums.bytes, std::memory_order_relaxed);
    peak_blocks_.store(sums.blocks, std::memory_order_relaxed);
}

} // namespace moiety_torch
