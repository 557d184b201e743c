/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The driver that the conformance test examines: whichever one is loaded. Only
 * the ABI is shared with the product; the table is the test's own, so that a
 * mistake in the product's loader cannot hide here.
 */
#ifndef MOIETY_TESTS_CONFORMANCE_DRIVER_UNDER_TEST_H_
#define MOIETY_TESTS_CONFORMANCE_DRIVER_UNDER_TEST_H_

#include <string>
#include <vector>

#include "pool/driver/cuda_abi.h"

namespace conformance
{

struct Driver {
#define X(member, base, version, flags, parameters)                            \
    CUresult(*member) parameters = nullptr;
#include "tests/conformance/driver_entries.inc"
#undef X

    void *library = nullptr; /* as dlopen() gave it */
    bool is_standin = false;
    /* Entries that the driver could not name; calling one gives NOT_FOUND. */
    std::vector<std::string> missing;
};

extern Driver cu;

/* Opens the file that MOIETY_DRIVER names, if that holds a '/', else the
 * system's libcuda.so.1, and fills `cu`. False with *why when there is no
 * driver; nothing of it is initialised. */
bool OpenDriver(std::string *why);

/* Number of devices after cuInit(0); 0 when either fails, with *why. */
int CountDevices(std::string *why);

/* "CUDA_ERROR_NOT_READY", or the number for a code that the ABI lacks. */
std::string NameOf(CUresult code);

} // namespace conformance

#endif
