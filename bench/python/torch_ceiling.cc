/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * How fast the server of examples/torch can be at most, whatever its allocator
 * does: beside PyTorch's and Binade's it has one that does next to nothing, a list
 * of blocks for each thread and size, without a lock.
 *
 *     torch_ceiling THREADS SECONDS native|binade|lists
 *
 * prints the server's row. Such lists are of no use elsewhere: a block is not
 * split, and stays with the thread that frees it.
 *
 * They are PyTorch's own allocator with another function in its table of virtual
 * ones, of which the third is allocate(): as g++ lays them out for x86-64.
 */
#define main server_main
#include "examples/torch/server.cc"
#undef main

#include <array>
#include <unordered_map>

namespace
{

namespace caching = c10::cuda::CUDACachingAllocator;

constexpr size_t kBefore = 2; /* words of a table in front of its functions */
constexpr size_t kWords = 128;
constexpr size_t kAllocate = 2;
constexpr size_t kRoundBytes = 512;

struct Block {
    void *address;
    size_t bytes;
    Block *next;
};

thread_local std::unordered_map<size_t, Block *> lists;

void lists_delete(void *context)
{
    auto *block = static_cast<Block *>(context);
    Block *&first = lists[block->bytes];
    block->next = first;
    first = block;
}

c10::DataPtr lists_allocate(c10::Allocator *native, size_t bytes)
{
    const c10::Device place(c10::kCUDA, c10::cuda::current_device());
    if (!bytes)
        return {nullptr, nullptr, &lists_delete, place};
    bytes = (bytes + kRoundBytes - 1) & ~(kRoundBytes - 1);
    Block *&first = lists[bytes];
    Block *block = first;
    if (block)
        first = block->next;
    else
        block = new Block{
            static_cast<caching::CUDAAllocator *>(native)->raw_alloc(bytes),
            bytes, nullptr};
    return {block->address, block, &lists_delete, place};
}

/* Once CUDA has started. */
void enable_lists()
{
    static std::array<void *, kWords> table;
    auto ***object = reinterpret_cast<void ***>(caching::allocator.load());
    const auto allocate = &lists_allocate;
    std::memcpy(table.data(), *object - kBefore, sizeof(table));
    std::memcpy(&table[kBefore + kAllocate], &allocate, sizeof(allocate));
    *object = table.data() + kBefore;
}

} // namespace

int main(int argc, char **argv)
{
    if (argc != 4 || strcmp(argv[3], "lists") != 0)
        return server_main(argc, argv);
    int threads = atoi(argv[1]);
    double seconds = atof(argv[2]);
    if (threads < 1 || threads > 256 || !(seconds > 0))
        return usage();
    at::zeros({1}, at::kCUDA);
    enable_lists();
    return measure(argv[3], threads, seconds) ? 0 : 1;
}
