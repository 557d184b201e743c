/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Moiety's own version: of the headers as macros, of the library as a call.
 */
#ifndef MOIETY_VERSION_H_
#define MOIETY_VERSION_H_

#include "moiety/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Version of these headers, as numbers and as "MAJOR.MINOR.PATCH". */
#define MOIETY_VERSION_MAJOR 0
#define MOIETY_VERSION_MINOR 1
#define MOIETY_VERSION_PATCH 0
#define MOIETY_VERSION_STRING "0.1.0"

/**
 * Tells the version of the library that is loaded, which may be newer than the
 * headers that the caller was built with.
 *
 * @return "MAJOR.MINOR.PATCH"; never NULL.
 *
 * Ownership: the library's; valid as long as the library is loaded.
 * Threads:   any, concurrently. Wait-free.
 * Streams:   none.
 * Context:   none; the driver is not touched.
 */
MOIETY_API const char *moiety_version(void);

#ifdef __cplusplus
}
#endif

#endif
