/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Host arenas through the public interface.
 */
#ifndef BINADE_TESTS_HOST_ARENA_UNDER_TEST_H_
#define BINADE_TESTS_HOST_ARENA_UNDER_TEST_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include <gtest/gtest.h>

#include "binade/host.h"
#include "binade/stats.h"

namespace host_test
{

inline binade_host_options HostDefaults()
{
    binade_host_options options = BINADE_HOST_OPTIONS_INIT;
    return options;
}

// An arena of 2 MiB that does not wait: what a test holds is all there is.
inline binade_host_options Tight()
{
    binade_host_options options = HostDefaults();
    options.limit_bytes = options.first_segment_bytes =
        options.largest_segment_bytes = uint64_t{2} << 20;
    options.wait_ms = 0;
    return options;
}

// An arena that expects to be whole at its end.
class Arena
{
  public:
    explicit Arena(const binade_host_options &options = HostDefaults())
    {
        EXPECT_EQ(BINADE_OK, binade_host_create(&options, &own_))
            << binade_last_error_message();
    }
    ~Arena()
    {
        binade_leaks leaks = {};
        leaks.struct_size = sizeof(leaks);
        EXPECT_EQ(BINADE_OK, binade_host_destroy(own_, &leaks))
            << binade_last_error_message();
        EXPECT_EQ(0u, leaks.block_count);
    }
    Arena(const Arena &) = delete;
    Arena &operator=(const Arena &) = delete;
    operator binade_host *() const
    {
        return own_;
    }

    // NULL, and a failure, when there is none.
    void *Alloc(size_t size_bytes, binade_stream stream = BINADE_HOST_CPU)
    {
        void *address = nullptr;
        EXPECT_EQ(BINADE_OK,
                  binade_host_alloc(own_, size_bytes, stream, &address))
            << binade_last_error_message();
        return address;
    }
    void Free(void *address, binade_stream stream = BINADE_STREAM_DONE)
    {
        EXPECT_EQ(BINADE_OK, binade_host_free(own_, address, stream))
            << binade_last_error_message();
    }
    binade_host_stats Stats()
    {
        binade_host_stats stats = {};
        stats.struct_size = sizeof(stats);
        EXPECT_EQ(BINADE_OK, binade_host_stats_get(own_, &stats));
        return stats;
    }
    std::string Report()
    {
        char text[512] = "";
        EXPECT_EQ(BINADE_OK, binade_host_report(own_, text, sizeof(text)));
        return text;
    }

  private:
    binade_host *own_ = nullptr;
};

} // namespace host_test

#endif
