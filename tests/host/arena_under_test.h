/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Host arenas through the public interface.
 */
#ifndef MOIETY_TESTS_HOST_ARENA_UNDER_TEST_H_
#define MOIETY_TESTS_HOST_ARENA_UNDER_TEST_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include <gtest/gtest.h>

#include "moiety/host.h"
#include "moiety/stats.h"

namespace host_test
{

inline moiety_host_options HostDefaults()
{
    moiety_host_options options = MOIETY_HOST_OPTIONS_INIT;
    return options;
}

// An arena of 2 MiB that does not wait: what a test holds is all there is.
inline moiety_host_options Tight()
{
    moiety_host_options options = HostDefaults();
    options.limit_bytes = options.first_segment_bytes =
        options.largest_segment_bytes = uint64_t{2} << 20;
    options.wait_ms = MOIETY_WAIT_NONE;
    return options;
}

// An arena that expects to be whole at its end.
class Arena
{
  public:
    explicit Arena(const moiety_host_options &options = HostDefaults())
    {
        EXPECT_EQ(MOIETY_OK, moiety_host_create(&options, &own_))
            << moiety_last_error_message();
    }
    ~Arena()
    {
        moiety_leaks leaks = {};
        leaks.struct_size = sizeof(leaks);
        EXPECT_EQ(MOIETY_OK, moiety_host_destroy(own_, &leaks))
            << moiety_last_error_message();
        EXPECT_EQ(0u, leaks.block_count);
    }
    Arena(const Arena &) = delete;
    Arena &operator=(const Arena &) = delete;
    operator moiety_host *() const
    {
        return own_;
    }

    // NULL, and a failure, when there is none.
    void *Alloc(size_t size_bytes, moiety_stream stream = MOIETY_HOST_CPU)
    {
        void *address = nullptr;
        EXPECT_EQ(MOIETY_OK,
                  moiety_host_alloc(own_, size_bytes, stream, &address))
            << moiety_last_error_message();
        return address;
    }
    void Free(void *address, moiety_stream stream = MOIETY_STREAM_DONE)
    {
        EXPECT_EQ(MOIETY_OK, moiety_host_free(own_, address, stream))
            << moiety_last_error_message();
    }
    moiety_host_stats Stats()
    {
        moiety_host_stats stats = {};
        stats.struct_size = sizeof(stats);
        EXPECT_EQ(MOIETY_OK, moiety_host_get_stats(own_, &stats));
        return stats;
    }
    std::string Report()
    {
        char text[512] = "";
        EXPECT_EQ(MOIETY_OK, moiety_host_report(own_, text, sizeof(text)));
        return text;
    }

  private:
    moiety_host *own_ = nullptr;
};

} // namespace host_test

#endif
