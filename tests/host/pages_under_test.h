/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Some pages of the process's own memory, to be pinned.
 */
#ifndef MOIETY_TESTS_HOST_PAGES_UNDER_TEST_H_
#define MOIETY_TESTS_HOST_PAGES_UNDER_TEST_H_

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>

#include <gtest/gtest.h>

#include "moiety/host.h"
#include "pool/driver/cuda_abi.h"
#include "tests/pool/pool_under_test.h"

namespace host_test
{

class Pages
{
  public:
    explicit Pages(size_t count)
        : page_bytes_(static_cast<size_t>(sysconf(_SC_PAGESIZE))), count_(count)
    {
        base_ = static_cast<char *>(mmap(nullptr, count * page_bytes_,
                                         PROT_READ | PROT_WRITE,
                                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
        EXPECT_NE(MAP_FAILED, static_cast<void *>(base_));
    }
    ~Pages()
    {
        munmap(base_, count_ * page_bytes_);
    }
    Pages(const Pages &) = delete;
    Pages &operator=(const Pages &) = delete;

    // The page with this index.
    char *At(size_t index) const
    {
        return base_ + index * page_bytes_;
    }
    size_t Bytes(size_t count) const
    {
        return count * page_bytes_;
    }
    moiety_status Pin(size_t first, size_t count) const
    {
        return moiety_host_pin(At(first), Bytes(count));
    }
    moiety_status Unpin(size_t first, size_t count) const
    {
        return moiety_host_unpin(At(first), Bytes(count));
    }
    bool IsPinned(size_t index) const
    {
        return IsPinnedAt(At(index));
    }
    // As the driver sees it.
    static bool IsPinnedAt(char *byte)
    {
        unsigned flags = 0;
        return pool_test::Get<CUresult(unsigned *, void *)>(
                   "cuMemHostGetFlags")(&flags, byte) == CUDA_SUCCESS;
    }

  private:
    size_t page_bytes_;
    size_t count_;
    char *base_;
};

} // namespace host_test

#endif
