// SPDX-License-Identifier: Apache-2.0
//
// Names and descriptions of error codes.
#include <cstring>

#include <gtest/gtest.h>

#include "tests/conformance/checks.h"
#include "tests/conformance/device.h"
#include "tests/conformance/driver_under_test.h"

namespace conformance
{

using ErrorNames = OnDevice;

TEST_F(ErrorNames, AreTheOfficialOnes)
{
    const CUresult codes[] = {
        CUDA_SUCCESS,
        CUDA_ERROR_INVALID_VALUE,
        CUDA_ERROR_OUT_OF_MEMORY,
        CUDA_ERROR_NOT_INITIALIZED,
        CUDA_ERROR_DEINITIALIZED,
        CUDA_ERROR_NO_DEVICE,
        CUDA_ERROR_INVALID_DEVICE,
        CUDA_ERROR_INVALID_CONTEXT,
        CUDA_ERROR_INVALID_HANDLE,
        CUDA_ERROR_ILLEGAL_STATE,
        CUDA_ERROR_NOT_FOUND,
        CUDA_ERROR_NOT_READY,
        CUDA_ERROR_ILLEGAL_ADDRESS,
        CUDA_ERROR_CONTEXT_IS_DESTROYED,
        CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED,
        CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED,
        CUDA_ERROR_NOT_SUPPORTED,
        CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
        CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
        CUDA_ERROR_CAPTURED_EVENT,
        CUDA_ERROR_UNKNOWN,
    };
    for (CUresult code : codes) {
        const char *name = nullptr;
        std::string check = "error-name." + NameOf(code);
        EXPECT_SUCCESS(check, cu.GetErrorName(code, &name));
        EXPECT_YES(check + ".is-official",
                   name != nullptr && NameOf(code) == name);
    }
}

TEST_F(ErrorNames, DescriptionsExist)
{
    const char *text = nullptr;
    EXPECT_SUCCESS("error-string",
                   cu.GetErrorString(CUDA_ERROR_NOT_READY, &text));
    EXPECT_YES("error-string.is-not-empty", text != nullptr && text[0] != '\0');
}

TEST_F(ErrorNames, UnknownCodesHaveNone)
{
    const char *text = "unchanged";
    CUresult unknown = static_cast<CUresult>(123456);
    EXPECT_INVALID("error-name.unknown", cu.GetErrorName(unknown, &text));
    EXPECT_YES("error-name.unknown.gives-null", text == nullptr);
    text = "unchanged";
    EXPECT_INVALID("error-string.unknown", cu.GetErrorString(unknown, &text));
    EXPECT_YES("error-string.unknown.gives-null", text == nullptr);
}

} // namespace conformance
