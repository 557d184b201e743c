/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A libtorch server in eager mode, each thread with a stream of its own, with
 * PyTorch's allocator or Moiety: what the allocator's lock costs.
 *
 *     server THREADS SECONDS native|moiety
 *
 * prints the requests a second, what was reserved, and whether all answers were
 * right.
 */
#include <ATen/ATen.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/core/InferenceMode.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <c10/util/Exception.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include <moiety/stacks/torch.h>

namespace
{

using Clock = std::chrono::steady_clock;

struct Model {
    std::vector<at::Tensor> weights;

    Model()
    {
        for (int i = 0; i < 8; i++)
            weights.push_back(at::randn({256, 256}, at::kCUDA) * 0.06);
    }

    /* Small operations, each with a tensor of its own. */
    at::Tensor answer(const at::Tensor &request) const
    {
        at::Tensor x = request;
        for (const at::Tensor &weight : weights)
            x = at::relu(at::matmul(x, weight)) + x * 0.5;
        return at::softmax(x, -1);
    }
};

struct Tally {
    std::atomic<uint64_t> requests{0};
    std::atomic<uint64_t> wrong{0};
};

void serve(const Model &model, int seed, Clock::time_point until, Tally *tally)
{
    c10::InferenceMode inference;
    c10::cuda::CUDAStreamGuard stream(c10::cuda::getStreamFromPool());
    while (Clock::now() < until) {
        int64_t rows = 8 + (seed++ * 37) % 56;
        at::Tensor request = at::full({rows, 256}, 0.01, at::kCUDA);
        at::Tensor sums = model.answer(request).sum(-1).cpu();
        if (!at::allclose(sums, at::ones({rows})))
            tally->wrong.fetch_add(1);
        tally->requests.fetch_add(1);
    }
}

/* Requests for so long, with as many threads. Returns how long that took. */
double serve_for(double seconds, int threads, const Model &model, Tally *tally)
{
    auto begin = Clock::now();
    auto until = begin + std::chrono::duration_cast<Clock::duration>(
                             std::chrono::duration<double>(seconds));
    std::vector<std::thread> workers;
    for (int i = 0; i < threads; i++)
        workers.emplace_back(serve, std::cref(model), i, until, tally);
    for (auto &worker : workers)
        worker.join();
    return std::chrono::duration<double>(Clock::now() - begin).count();
}

/* False: an answer was wrong. */
bool measure(const char *subject, int threads, double seconds)
{
    c10::InferenceMode inference;
    const Model model;
    Tally warm_up, tally;
    serve_for(1.0, threads, model, &warm_up);
    double took = serve_for(seconds, threads, model, &tally);
    auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(0);
    printf("{\"kind\":\"torch-server\",\"subject\":\"%s\",\"threads\":%d,"
           "\"requests_per_s\":%.0f,\"wrong\":%llu,"
           "\"reserved_peak_bytes\":%lld,\"torch\":\"%s\"}\n",
           subject, threads, static_cast<double>(tally.requests.load()) / took,
           static_cast<unsigned long long>(tally.wrong.load()),
           static_cast<long long>(stats.reserved_bytes[0].peak),
           moiety_torch_release());
    return tally.wrong.load() == 0;
}

int usage()
{
    (void)fprintf(stderr, "usage: server THREADS SECONDS native|moiety\n");
    return 2;
}

int failed(const char *why)
{
    (void)fprintf(stderr, "server: %s\n", why);
    return 1;
}

} // namespace

int main(int argc, char **argv)
{
    if (argc != 4)
        return usage();
    int threads = atoi(argv[1]);
    double seconds = atof(argv[2]);
    bool is_moiety = strcmp(argv[3], "moiety") == 0;
    if (threads < 1 || threads > 256 || !(seconds > 0) ||
        (!is_moiety && strcmp(argv[3], "native") != 0))
        return usage();
    if (is_moiety) {
        moiety_torch_options options = {};
        options.struct_size = sizeof(options);
        if (moiety_torch_enable(&options) != MOIETY_OK)
            return failed(moiety_last_error_message());
    }
    try {
        return measure(argv[3], threads, seconds) ? 0 : 1;
    } catch (const c10::Error &error) {
        return failed(error.what_without_backtrace());
    }
}
