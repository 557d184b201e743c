/*
 * SPDX-License-Identifier: Apache-2.0
 */
#define _GNU_SOURCE
#include "bench/studies/mapped/must.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

void must(CUresult code, const char *what)
{
    if (code == CUDA_SUCCESS)
        return;
    (void)fprintf(stderr, "%s: %s: error %d\n", program_invocation_short_name,
                  what, (int)code);
    exit(1);
}

void must_be(moiety_status status)
{
    if (status == MOIETY_OK)
        return;
    (void)fprintf(stderr, "%s: %s\n", program_invocation_short_name,
                  moiety_last_error_message());
    exit(1);
}

void must_hold(bool holds, const char *what)
{
    if (holds)
        return;
    (void)fprintf(stderr, "%s: not so: %s\n", program_invocation_short_name,
                  what);
    exit(1);
}
