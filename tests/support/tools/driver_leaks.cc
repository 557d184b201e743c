// SPDX-License-Identifier: Apache-2.0
//
// A context that is declared lost, and a call that the stand-in was told to refuse,
// leave events and streams to the driver. The stand-in never frees those: the leak
// checker overlooks them in a program that links this file. Its tests count what
// the pool itself leaves behind.
#include "moiety/types.h"

extern "C" MOIETY_API const char *__lsan_default_suppressions();
extern "C" const char *__lsan_default_suppressions()
{
    return "leak:libcuda.so.1\nleak:cuEventCreate\n";
}
