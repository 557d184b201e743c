/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A private arena that pauses and resumes, in a pool of mapped memory. Its calls
 * expect MOIETY_OK.
 */
#ifndef MOIETY_TESTS_PRIVATE_PAUSING_ARENA_H_
#define MOIETY_TESTS_PRIVATE_PAUSING_ARENA_H_

#include <cstddef>
#include <cstdint>

#include <gtest/gtest.h>

#include "moiety/private.h"
#include "tests/pool/pool_under_test.h"
#include "tests/support/tools/pools.h"

namespace private_test
{

constexpr uint32_t kKeep = MOIETY_PAUSE_KEEP_CONTENTS;

inline moiety_pool_options Mapped(uint64_t limit_bytes = 0)
{
    moiety_pool_options options = driver_options();
    set_kind(&options, KIND_MAPPED);
    options.thread_cache_bytes = MOIETY_BYTES_NONE;
    options.limit_bytes = limit_bytes;
    options.wait_ms = 60000; // machines of tests are slow
    return options;
}

class Arena
{
  public:
    explicit Arena(moiety_pool *pool, uint32_t flags = MOIETY_PRIVATE_PAUSABLE)
    {
        moiety_private_options options = {};
        options.struct_size = sizeof options;
        options.flags = flags;
        EXPECT_OK(moiety_private_create(pool, &options, &own_));
    }
    ~Arena()
    {
        if (own_) {
            EXPECT_OK(Release());
        }
    }
    Arena(const Arena &) = delete;
    Arena &operator=(const Arena &) = delete;
    operator moiety_private() const
    {
        return own_;
    }

    moiety_status Release()
    {
        moiety_status status = moiety_private_destroy(own_);
        if (status == MOIETY_OK)
            own_ = 0;
        return status;
    }
    // To the pool's end.
    void Forget()
    {
        own_ = 0;
    }
    moiety_devptr Alloc(size_t size_bytes,
                        moiety_stream stream = MOIETY_STREAM_DONE)
    {
        moiety_devptr block = 0;
        EXPECT_OK(alloc_of_arena(own_, size_bytes, stream, &block));
        return block;
    }
    void Pause(uint32_t flags = 0)
    {
        EXPECT_OK(moiety_private_pause(own_, flags));
    }
    void Resume()
    {
        EXPECT_OK(moiety_private_resume(own_));
    }
    moiety_private_stats Info() const
    {
        moiety_private_stats info = {};
        info.struct_size = sizeof info;
        EXPECT_OK(moiety_private_get_stats(own_, &info));
        return info;
    }

  private:
    moiety_private own_ = 0;
};

} // namespace private_test

#endif // MOIETY_TESTS_PRIVATE_PAUSING_ARENA_H_
