/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A private arena that pauses and resumes, in a pool of mapped memory. Its calls
 * expect BINADE_OK.
 */
#ifndef BINADE_TESTS_PRIVATE_PAUSING_ARENA_H_
#define BINADE_TESTS_PRIVATE_PAUSING_ARENA_H_

#include <cstddef>
#include <cstdint>

#include <gtest/gtest.h>

#include "binade/private.h"
#include "tests/pool/pool_under_test.h"

namespace private_test
{

constexpr uint32_t kKeep = BINADE_PAUSE_KEEP_CONTENTS;

inline binade_pool_options Mapped(uint64_t limit_bytes = 0)
{
    binade_pool_options options = BINADE_POOL_OPTIONS_INIT;
    options.flags = BINADE_POOL_MAPPED;
    options.thread_cache_bytes = 0;
    options.limit_bytes = limit_bytes;
    options.wait_ms = 60000; // machines of tests are slow
    return options;
}

class Arena
{
  public:
    explicit Arena(binade_pool *pool, uint32_t flags = BINADE_PRIVATE_PAUSABLE)
    {
        binade_private_options options = {};
        options.struct_size = sizeof options;
        options.flags = flags;
        EXPECT_EQ(BINADE_OK, binade_private_create_with(pool, &options, &own_))
            << binade_last_error_message();
    }
    ~Arena()
    {
        if (own_) {
            EXPECT_EQ(BINADE_OK, Release()) << binade_last_error_message();
        }
    }
    Arena(const Arena &) = delete;
    Arena &operator=(const Arena &) = delete;
    operator binade_private() const
    {
        return own_;
    }

    binade_status Release()
    {
        binade_status status = binade_private_release(own_);
        if (status == BINADE_OK)
            own_ = 0;
        return status;
    }
    // To the pool's end.
    void Forget()
    {
        own_ = 0;
    }
    binade_devptr Alloc(size_t size_bytes,
                        binade_stream stream = BINADE_STREAM_DONE)
    {
        binade_devptr block = 0;
        EXPECT_EQ(BINADE_OK,
                  binade_private_alloc(own_, size_bytes, stream, &block))
            << binade_last_error_message();
        return block;
    }
    void Pause(uint32_t flags = 0)
    {
        EXPECT_EQ(BINADE_OK, binade_private_pause(own_, flags))
            << binade_last_error_message();
    }
    void Resume()
    {
        EXPECT_EQ(BINADE_OK, binade_private_resume(own_))
            << binade_last_error_message();
    }
    binade_private_info Info() const
    {
        binade_private_info info = {};
        info.struct_size = sizeof info;
        EXPECT_EQ(BINADE_OK, binade_private_stats(own_, &info));
        return info;
    }

  private:
    binade_private own_ = 0;
};

} // namespace private_test

#endif // BINADE_TESTS_PRIVATE_PAUSING_ARENA_H_
