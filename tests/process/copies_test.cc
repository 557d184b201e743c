// SPDX-License-Identifier: Apache-2.0
//
// The shared library loaded twice, from two files, into one process, and closed
// while threads have caches of it.
#include <gtest/gtest.h>

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "moiety/moiety.h"

namespace
{

const moiety_stream kStream = MOIETY_STREAM_LEGACY;

std::string Folder()
{
    char folder[4096];
    EXPECT_TRUE(getcwd(folder, sizeof(folder)));
    return folder;
}

// A copy of the library in a file of its own: to the loader another library. It
// stays loaded, so a name is not used again.
class Copy
{
  public:
    Copy()
        : path_(std::string(std::getenv("TEST_TMPDIR")) + "/copy" +
                std::to_string(made_count++) + ".so")
    {
        std::ifstream from(Folder() + "/libmoiety.so", std::ios::binary);
        std::ofstream to(path_, std::ios::binary);
        to << from.rdbuf();
        to.close();
        handle_ = dlopen(path_.c_str(), RTLD_NOW | RTLD_LOCAL);
        EXPECT_TRUE(handle_) << dlerror();
    }

    ~Copy()
    {
        Close();
    }

    void Close()
    {
        if (handle_) {
            EXPECT_EQ(0, dlclose(handle_)) << dlerror();
        }
        handle_ = nullptr;
    }

    // Opened without loading: whether it is there.
    bool IsLoaded() const
    {
        void *found = dlopen(path_.c_str(), RTLD_NOW | RTLD_NOLOAD);
        if (found)
            dlclose(found);
        return found != nullptr;
    }

    template <typename T> T *Get(T *, const char *name) const
    {
        void *found = dlsym(handle_, name);
        EXPECT_TRUE(found) << name;
        return reinterpret_cast<T *>(found);
    }

  private:
    static int made_count;

    std::string path_;
    void *handle_ = nullptr;
};

int Copy::made_count;

#define OF(copy, name) (copy).Get(static_cast<decltype(&name)>(nullptr), #name)

class Copies : public ::testing::Test
{
  protected:
    static void SetUpTestSuite()
    {
        setenv("MOIETY_DRIVER",
               (Folder() + "/pool/standin/libcuda.so.1").c_str(), 1);
        unsetenv("MOIETY_CONF");
    }
};

// The driver that both opened.
int64_t LiveInTheDriver(const char *kind)
{
    void *driver = dlopen(std::getenv("MOIETY_DRIVER"), RTLD_NOW | RTLD_NOLOAD);
    EXPECT_TRUE(driver) << dlerror();
    if (!driver)
        return -1;
    auto live = reinterpret_cast<int64_t (*)(const char *)>(
        dlsym(driver, "moiety_standin_live"));
    int64_t count = live(kind);
    dlclose(driver);
    return count;
}

TEST_F(Copies, WorkSideBySideInOneDriver)
{
    Copy one, two;
    moiety_pool *first = nullptr, *second = nullptr;
    moiety_devptr in_first = 0, in_second = 0;
    moiety_pool_options options = MOIETY_POOL_OPTIONS_INIT;
    options.memory = MOIETY_MEMORY_DRIVER;
    ASSERT_NE(OF(one, moiety_alloc), OF(two, moiety_alloc));
    ASSERT_EQ(MOIETY_OK, OF(one, moiety_pool_create)(&options, &first));
    ASSERT_EQ(MOIETY_OK, OF(two, moiety_pool_create)(&options, &second));
    ASSERT_EQ(MOIETY_OK,
              OF(one, moiety_alloc)(first, 4096, kStream, &in_first));
    ASSERT_EQ(MOIETY_OK,
              OF(two, moiety_alloc)(second, 4096, kStream, &in_second));
    EXPECT_NE(in_first, in_second);
    EXPECT_EQ(2, LiveInTheDriver("allocations"));
    EXPECT_EQ(MOIETY_E_FOREIGN,
              OF(two, moiety_free)(second, in_first, kStream));
    EXPECT_STREQ("", OF(one, moiety_last_error_message)())
        << "the other's failure";
    EXPECT_EQ(MOIETY_OK, OF(one, moiety_free)(first, in_first, kStream));
    EXPECT_EQ(MOIETY_OK, OF(two, moiety_free)(second, in_second, kStream));
    EXPECT_EQ(MOIETY_OK, OF(one, moiety_pool_destroy)(first, nullptr));
    EXPECT_EQ(1, LiveInTheDriver("allocations"));
    EXPECT_EQ(MOIETY_OK, OF(two, moiety_pool_destroy)(second, nullptr));
    EXPECT_EQ(0, LiveInTheDriver("allocations"));
}

// What the loader keeps for libraries that come late is less than two KiB for all
// of them together.
TEST_F(Copies, TakeLittleOfTheRoomForThreadLocals)
{
    std::vector<std::unique_ptr<Copy>> copies;
    for (int i = 0; i < 12 && !HasFailure(); i++)
        copies.push_back(std::make_unique<Copy>());
}

// So a program that captures must hold the guard of each.
TEST_F(Copies, HaveACaptureGuardEach)
{
    Copy one, two;
    moiety_pool *first = nullptr, *second = nullptr;
    ASSERT_EQ(MOIETY_OK, OF(one, moiety_pool_create)(nullptr, &first));
    ASSERT_EQ(MOIETY_OK, OF(two, moiety_pool_create)(nullptr, &second));
    ASSERT_EQ(MOIETY_OK, OF(one, moiety_capture_guard_begin)());
    EXPECT_EQ(MOIETY_E_CAPTURING, OF(one, moiety_pool_destroy)(first, nullptr));
    EXPECT_EQ(MOIETY_OK, OF(two, moiety_pool_destroy)(second, nullptr));
    ASSERT_EQ(MOIETY_OK, OF(one, moiety_capture_guard_end)());
    EXPECT_EQ(MOIETY_OK, OF(one, moiety_pool_destroy)(first, nullptr));
}

TEST_F(Copies, AreBothToldOfAFork)
{
    Copy one, two;
    moiety_pool *first = nullptr, *second = nullptr;
    ASSERT_EQ(MOIETY_OK, OF(one, moiety_pool_create)(nullptr, &first));
    ASSERT_EQ(MOIETY_OK, OF(two, moiety_pool_create)(nullptr, &second));
    auto in_one = OF(one, moiety_alloc);
    auto in_two = OF(two, moiety_alloc);
    pid_t child = fork();
    if (child == 0) {
        moiety_devptr out = 0;
        bool is_told = in_one(first, 512, kStream, &out) == MOIETY_E_FORKED &&
                       in_two(second, 512, kStream, &out) == MOIETY_E_FORKED;
        _exit(is_told ? 0 : 1);
    }
    int status = -1;
    EXPECT_EQ(child, waitpid(child, &status, 0));
    EXPECT_EQ(0, status);
    EXPECT_EQ(MOIETY_OK, OF(one, moiety_pool_destroy)(first, nullptr));
    EXPECT_EQ(MOIETY_OK, OF(two, moiety_pool_destroy)(second, nullptr));
}

// The thread's end is the library's: its code must still be there.
TEST_F(Copies, StayLoadedForThreadsThatEndAfterTheClose)
{
    Copy copy;
    moiety_pool *pool = nullptr;
    std::promise<void> has_used, is_closed;
    ASSERT_EQ(MOIETY_OK, OF(copy, moiety_pool_create)(nullptr, &pool));
    std::thread thread([&] {
        moiety_devptr block = 0;
        EXPECT_EQ(MOIETY_OK,
                  OF(copy, moiety_alloc)(pool, 4096, kStream, &block));
        EXPECT_EQ(MOIETY_OK, OF(copy, moiety_free)(pool, block, kStream));
        has_used.set_value();
        is_closed.get_future().wait();
    });
    has_used.get_future().wait();
    auto destroy = OF(copy, moiety_pool_destroy);
    copy.Close();
    EXPECT_TRUE(copy.IsLoaded());
    is_closed.set_value();
    thread.join();
    EXPECT_EQ(MOIETY_OK, destroy(pool, nullptr));
    // And a fork runs what the library registered for it.
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    int status = -1;
    EXPECT_EQ(child, waitpid(child, &status, 0));
    EXPECT_EQ(0, status);
}

} // namespace
