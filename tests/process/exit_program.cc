// SPDX-License-Identifier: Apache-2.0
//
// A process that ends in one of several bad ways. exit_program WAY
//
// Says on stderr what was not as it should be, and ends with 1 then.
#include <limits.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "tests/pool/pool_under_test.h"

namespace
{

using namespace pool_test;

void Expect(bool condition, const char *what)
{
    if (condition)
        return;
    std::fprintf(stderr, "not so: %s: %s\n", what, moiety_last_error_message());
    _exit(1);
}

#define EXPECT_THAT(condition) Expect(condition, #condition)

struct Use {
    moiety_pool *pool = nullptr;
    std::vector<moiety_devptr> blocks;

    void Begin()
    {
        pool_test::UseStandin();
        EXPECT_THAT(moiety_pool_create(nullptr, &pool) == MOIETY_OK);
        for (int i = 0; i < 300; i++)
            Alloc(i % 10 ? 20 * kKiB : 3 * kMiB);
    }

    void Alloc(size_t size_bytes)
    {
        moiety_devptr address = 0;
        EXPECT_THAT(moiety_alloc(pool, size_bytes, kStream, &address) ==
                    MOIETY_OK);
        blocks.push_back(address);
    }

    // Whatever has become of the driver.
    void FreeAll()
    {
        for (size_t i = 0; i < blocks.size(); i++)
            EXPECT_THAT(moiety_free(pool, blocks[i],
                                    i % 3 == 0 ? kStream
                                    : i % 3 == 1
                                        ? MOIETY_STREAM_ANY
                                        : MOIETY_STREAM_DONE) == MOIETY_OK);
        blocks.clear();
    }

    void End()
    {
        moiety_leaks leaks = {};
        leaks.struct_size = sizeof(leaks);
        EXPECT_THAT(moiety_pool_destroy(pool, &leaks) == MOIETY_OK);
        EXPECT_THAT(leaks.block_count == 0);
    }
};

bool IsDriverThere()
{
    int count = 0;
    return pool_test::Get<int(int *)>("cuDeviceGetCount")(&count) == 0;
}

void EndWithoutDriver(Use &use)
{
    moiety_devptr address = 0;
    EXPECT_THAT(!IsDriverThere());
    auto strange = reinterpret_cast<moiety_stream>(0x1230);
    EXPECT_THAT(moiety_free(use.pool, use.blocks.back(), strange) == MOIETY_OK);
    use.blocks.pop_back();
    EXPECT_THAT(moiety_alloc(use.pool, 100 * kMiB, kStream, &address) ==
                MOIETY_E_DEINITIALIZED);
    uint64_t before = pool_test::Calls();
    use.FreeAll();
    EXPECT_THAT(moiety_alloc(use.pool, 20 * kKiB, kStream, &address) ==
                MOIETY_E_DEINITIALIZED);
    use.End();
    EXPECT_THAT(pool_test::Calls() == before);
    EXPECT_THAT(moiety_pool_create(nullptr, &use.pool) ==
                MOIETY_E_DEINITIALIZED);
}

Use *handled;

void HandlerWithoutDriver()
{
    EndWithoutDriver(*handled);
}

void HandlerWithDriver()
{
    EXPECT_THAT(IsDriverThere());
    handled->Alloc(5 * kMiB);
    handled->FreeAll();
    handled->End();
}

// Registered before the driver's own handler, so it runs after that.
void ByALateHandler()
{
    static Use use;
    handled = &use;
    EXPECT_THAT(std::atexit(HandlerWithoutDriver) == 0);
    use.Begin();
}

void ByAnEarlyHandler()
{
    static Use use;
    handled = &use;
    use.Begin();
    EXPECT_THAT(std::atexit(HandlerWithDriver) == 0);
}

// Frees only, as a program does that never thought of it.
void ByAHandlerThatOnlyFrees()
{
    static Use use;
    handled = &use;
    EXPECT_THAT(std::atexit([] { handled->FreeAll(); }) == 0);
    use.Begin();
}

// Its destructor runs after the driver's handler: it was made before.
struct Static {
    Use use;
    bool is_used = false;

    ~Static()
    {
        if (is_used)
            EndWithoutDriver(use);
    }
};

Static global;

void ByAStaticDestructor()
{
    global.is_used = true;
    global.use.Begin();
}

struct ThreadLocal {
    Use *use = nullptr;
    moiety_devptr block = 0;

    // In the main thread before all handlers, in others before all keys.
    ~ThreadLocal()
    {
        moiety_devptr another = 0;
        if (!use)
            return;
        EXPECT_THAT(moiety_free(use->pool, block, MOIETY_STREAM_ANY) ==
                    MOIETY_OK);
        EXPECT_THAT(moiety_alloc(use->pool, 4 * kKiB, kStream, &another) ==
                    MOIETY_OK);
        EXPECT_THAT(moiety_free(use->pool, another, kStream) == MOIETY_OK);
    }
};

thread_local ThreadLocal local;

void ByThreadLocals()
{
    static Use use;
    handled = &use;
    use.Begin();
    EXPECT_THAT(std::atexit(HandlerWithDriver) == 0);
    auto begin = [] {
        local.use = &use;
        EXPECT_THAT(moiety_alloc(use.pool, 9 * kKiB, kStream, &local.block) ==
                    MOIETY_OK);
    };
    begin();
    std::thread(begin).join();
}

// As often as the C library calls the destructors of a thread's keys. In the last
// round thread sanitizer forgets the thread, so nobody may run later than that.
#if defined(__SANITIZE_THREAD__)
constexpr int kDestructorRounds = PTHREAD_DESTRUCTOR_ITERATIONS - 2;
#else
constexpr int kDestructorRounds = PTHREAD_DESTRUCTOR_ITERATIONS;
#endif

// A destructor that makes calls of its own, again and again as far as the C
// library goes.
struct Key {
    pthread_key_t key;
    Use *use;
    int times;
    moiety_devptr block;
};

void EndOfKey(void *argument)
{
    Key *own = static_cast<Key *>(argument);
    EXPECT_THAT(moiety_free(own->use->pool, own->block, kStream) == MOIETY_OK);
    if (--own->times == 0)
        return;
    EXPECT_THAT(moiety_alloc(own->use->pool, 9 * kKiB, kStream, &own->block) ==
                MOIETY_OK);
    EXPECT_THAT(pthread_setspecific(own->key, own) == 0);
}

// Keys made before the library's own and after it.
void ByKeys(int times)
{
    Use use;
    Key before = {}, after = {};
    EXPECT_THAT(pthread_key_create(&before.key, EndOfKey) == 0);
    use.Begin();
    EXPECT_THAT(pthread_key_create(&after.key, EndOfKey) == 0);
    for (int i = 0; i < 20; i++)
        std::thread([&] {
            for (Key *key : {&before, &after}) {
                key->use = &use;
                key->times = times;
                EXPECT_THAT(moiety_alloc(use.pool, 9 * kKiB, kStream,
                                         &key->block) == MOIETY_OK);
                EXPECT_THAT(pthread_setspecific(key->key, key) == 0);
            }
        }).join();
    use.FreeAll();
    moiety_pool_stats stats = {};
    stats.struct_size = sizeof(stats);
    EXPECT_THAT(moiety_pool_get_stats(use.pool, &stats) == MOIETY_OK);
    EXPECT_THAT(stats.allocation_current == 0);
    EXPECT_THAT(times > 1 || stats.threads == 1);
    use.End();
}

// main() returns, and nobody waits for the threads.
void UnderLoad()
{
    static Use use;
    static std::atomic<unsigned> running;
    use.Begin();
    for (unsigned i = 0; i < 3; i++)
        std::thread([i] {
            for (;;) {
                moiety_devptr addresses[20] = {};
                // After the driver has gone they fail.
                for (moiety_devptr &address : addresses)
                    if (moiety_alloc(use.pool, (i + 1) * 20 * kKiB, kStream,
                                     &address) != MOIETY_OK)
                        address = 0;
                for (moiety_devptr address : addresses)
                    EXPECT_THAT(moiety_free(use.pool, address,
                                            MOIETY_STREAM_ANY) == MOIETY_OK);
                if (i == 0 &&
                    moiety_pool_trim(use.pool, 0, nullptr) != MOIETY_OK)
                    continue;
                running |= 1U << i;
            }
        }).detach();
    while (running != 7)
        std::this_thread::yield();
}

const struct {
    const char *name;
    void (*function)();
} kWays[] = {
    {"late_handler", ByALateHandler},
    {"early_handler", ByAnEarlyHandler},
    {"handler_that_only_frees", ByAHandlerThatOnlyFrees},
    {"static_destructor", ByAStaticDestructor},
    {"thread_locals", ByThreadLocals},
    {"keys", [] { ByKeys(1); }},
    {"stubborn_keys", [] { ByKeys(kDestructorRounds); }},
    {"load", UnderLoad},
};

} // namespace

int main(int argument_count, char **arguments)
{
    for (const auto &way : kWays)
        if (argument_count == 2 && std::strcmp(arguments[1], way.name) == 0) {
            way.function();
            return 0;
        }
    std::fprintf(stderr, "exit_program: which way?\n");
    return 2;
}
