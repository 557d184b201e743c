/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * How fast the server of examples/torch can be at most, whatever its allocator
 * does: beside PyTorch's and Moiety's it has one that does next to nothing, a list
 * of blocks for each thread and size, without a lock.
 *
 *     torch_ceiling THREADS SECONDS native|moiety|lists
 *
 * prints the server's row. Such lists are of no use elsewhere: a block stays with
 * the thread that frees it. Compiled as the server is, with the repository's root
 * among the folders of headers.
 */
#define main server_main
#include "examples/torch/server.cc"
#undef main

#include "bench/python/torch_lists.h"

namespace
{

struct OfThread {
    static thread_local torch_lists::Lists lists;

    static void Push(torch_lists::Block *block)
    {
        torch_lists::push(&lists, block);
    }

    static torch_lists::Block *Pop(size_t bytes)
    {
        return torch_lists::pop(&lists, bytes);
    }
};

thread_local torch_lists::Lists OfThread::lists;

c10::DataPtr lists_allocate(c10::Allocator *native, size_t bytes)
{
    return torch_lists::take<OfThread>(
        static_cast<torch_lists::Native *>(native), bytes);
}

/* Once CUDA has started. */
void enable_lists()
{
    static torch_lists::Table table;
    auto ***object = reinterpret_cast<void ***>(
        c10::cuda::CUDACachingAllocator::allocator.load());
    std::memcpy(table.data(), *object - torch_lists::kBefore, sizeof(table));
    torch_lists::set_allocate(&table, &lists_allocate);
    *object = table.data() + torch_lists::kBefore;
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
