/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * For torch_turns.py: changes which allocator PyTorch has for CUDA, from one that
 * is there to another; blocks go back to where they are from. Beside PyTorch's own
 * and Moiety's there are lists (torch_lists.h). Calls may be timed, by the
 * processor's counter. An allocator is changed by its table of virtual functions.
 */
#include <x86intrin.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>

#include "bench/python/torch_lists.h"

namespace
{

namespace caching = c10::cuda::CUDACachingAllocator;
using torch_lists::Allocate;
using torch_lists::kAllocate;
using torch_lists::kBefore;
using torch_lists::Table;

enum Which { NATIVE, MOIETY, LISTS, SUBJECTS };
enum Timing { NONE, PLAIN, FENCED }; /* FENCED: with all that it has begun */

constexpr size_t kThreadsMax = 64;

struct Subject {
    caching::CUDAAllocator *allocator = nullptr;
    Allocate allocate = nullptr;
    c10::DeleterFnPtr deleter = nullptr;
    Table plain;
    Table timed;
};

struct Sum {
    uint64_t ticks[2] = {}; /* in allocations, in frees */
};

Subject subjects[SUBJECTS];
Sum sums[SUBJECTS][kThreadsMax];
std::atomic<size_t> thread_count{0};
bool is_fenced;

void *object_of_lists[64]; /* the first word is its table */

struct OfAll {
    static std::mutex lock; /* of what follows */
    static torch_lists::Lists lists;

    static void Push(torch_lists::Block *block)
    {
        const std::lock_guard<std::mutex> guard(lock);
        torch_lists::push(&lists, block);
    }

    static torch_lists::Block *Pop(size_t bytes)
    {
        const std::lock_guard<std::mutex> guard(lock);
        return torch_lists::pop(&lists, bytes);
    }
};

std::mutex OfAll::lock;
torch_lists::Lists OfAll::lists;

c10::DataPtr lists_allocate(c10::Allocator *, size_t bytes)
{
    return torch_lists::take<OfAll>(subjects[NATIVE].allocator, bytes);
}

uint64_t now()
{
    if (is_fenced) {
        _mm_mfence();
        _mm_lfence();
    }
    return __rdtsc();
}

void count(Which which, int kind, uint64_t ticks)
{
    static thread_local const size_t thread = thread_count++ % kThreadsMax;
    sums[which][thread].ticks[kind] += ticks;
}

template <Which which> void timed_delete(void *context)
{
    const uint64_t begin = now();
    subjects[which].deleter(context);
    count(which, 1, now() - begin);
}

template <Which which>
c10::DataPtr timed_allocate(c10::Allocator *self, size_t bytes)
{
    const uint64_t begin = now();
    c10::DataPtr block = subjects[which].allocate(self, bytes);
    count(which, 0, now() - begin);
    if (block.get_context())
        (void)block.compare_exchange_deleter(subjects[which].deleter,
                                             &timed_delete<which>);
    return block;
}

Allocate allocate_of(const Table &table)
{
    Allocate allocate;
    std::memcpy(&allocate, &table[kBefore + kAllocate], sizeof(allocate));
    return allocate;
}

template <Which which> void prepare(void **functions)
{
    Subject &subject = subjects[which];
    std::memcpy(subject.plain.data(), functions - kBefore,
                sizeof(subject.plain));
    if (which == LISTS)
        torch_lists::set_allocate(&subject.plain, &lists_allocate);
    subject.timed = subject.plain;
    subject.allocate = allocate_of(subject.plain);
    torch_lists::set_allocate(&subject.timed, &timed_allocate<which>);
}

void **functions_of(caching::CUDAAllocator *allocator)
{
    return *reinterpret_cast<void ***>(allocator);
}

} // namespace

/* Before Moiety is enabled. */
extern "C" void turns_note_native()
{
    subjects[NATIVE].allocator = caching::allocator.load();
}

/* Once CUDA has started. */
extern "C" void turns_begin(int devices)
{
    caching::CUDAAllocator *native = subjects[NATIVE].allocator;
    subjects[MOIETY].allocator = caching::allocator.load();
    subjects[LISTS].allocator =
        reinterpret_cast<caching::CUDAAllocator *>(object_of_lists);
    native->init(devices);
    prepare<NATIVE>(functions_of(native));
    prepare<MOIETY>(functions_of(subjects[MOIETY].allocator));
    prepare<LISTS>(functions_of(native));
    subjects[NATIVE].deleter = native->raw_deleter();
    subjects[MOIETY].deleter = subjects[MOIETY].allocator->raw_deleter();
    subjects[LISTS].deleter = &torch_lists::give<OfAll>;
}

/* No thread allocates meanwhile. */
extern "C" void turns_take(int which, int timing)
{
    Subject &subject = subjects[which];
    Table &table = timing == NONE ? subject.plain : subject.timed;
    is_fenced = timing == FENCED;
    *reinterpret_cast<void ***>(subject.allocator) = table.data() + kBefore;
    caching::allocator.store(subject.allocator);
}

/* Microseconds in calls of the subject and of a kind since this was asked last. */
extern "C" double turns_microseconds(int which, int kind)
{
    using Clock = std::chrono::steady_clock;
    constexpr auto kLook = std::chrono::milliseconds(20);
    const auto begin = Clock::now();
    const uint64_t begin_ticks = __rdtsc();
    while (Clock::now() - begin < kLook)
        ;
    const double us =
        std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
    const double ticks = double(__rdtsc() - begin_ticks);
    uint64_t sum = 0;
    for (Sum &of_thread : sums[which]) {
        sum += of_thread.ticks[kind];
        of_thread.ticks[kind] = 0;
    }
    return double(sum) * us / ticks;
}
