/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The library's own version. A call and not only a macro: a program may run
 * with a newer library than it was built with.
 */
#include "binade/version.h"

const char *binade_version(void)
{
    return BINADE_VERSION_STRING;
}
