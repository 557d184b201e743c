// SPDX-License-Identifier: Apache-2.0
#include "tests/host/pinned_under_test.h"

#include "pool/driver/cuda_abi.h"

namespace host_test
{

Pinned::Pinned(uint32_t flags, uint32_t thread_count, moiety_context context)
    : own_(pinned_probe_create(context, flags, thread_count))
{
    EXPECT_NE(nullptr, own_) << moiety_last_error_message();
}

Pinned::~Pinned()
{
    pinned_probe_destroy(own_);
}

moiety_status Pinned::Reserve(uint64_t size_bytes, moiety_devptr *out)
{
    moiety_source source = pinned_probe_source(own_);
    return source.reserve(source.context, size_bytes, out);
}

moiety_status Pinned::Release(moiety_devptr address, uint64_t size_bytes)
{
    moiety_source source = pinned_probe_source(own_);
    return source.release(source.context, address, size_bytes);
}

moiety_devptr Pinned::Reserve(uint64_t size_bytes)
{
    moiety_devptr address = 0;
    EXPECT_OK(Reserve(size_bytes, &address));
    return address;
}

moiety_host_stats Pinned::Stats()
{
    return pinned_probe_stats(own_);
}

std::string Pinned::Reason()
{
    return pinned_probe_reason(own_);
}

unsigned FlagsOf(moiety_devptr address)
{
    unsigned flags = 0;
    EXPECT_EQ(CUDA_SUCCESS,
              pool_test::Get<CUresult(unsigned *, void *)>("cuMemHostGetFlags")(
                  &flags, reinterpret_cast<void *>(address)));
    return flags;
}

void PinnedTest::SetUpTestSuite()
{
    pool_test::UseStandin();
    // Whatever is made once is made before anything is counted.
    Pinned once;
    EXPECT_OK(once.Release(once.Reserve(2 * kMiB), 2 * kMiB));
    EXPECT_EQ(MOIETY_E_FOREIGN, once.Release(2 * kMiB, 2 * kMiB));
}

void PinnedTest::SetUp()
{
    mapped_bytes_ = failing_steps_mapped_bytes();
    host_count_ = pool_test::Live("host");
}

void PinnedTest::TearDown()
{
    (void)failing_steps_disarm();
    pool_test::SetFaults("");
    // Records of threads and the like may come to stay; they are small.
    EXPECT_EQ(mapped_bytes_ / int64_t{kMiB},
              failing_steps_mapped_bytes() / int64_t{kMiB});
    EXPECT_EQ(host_count_, pool_test::Live("host"));
}

} // namespace host_test
