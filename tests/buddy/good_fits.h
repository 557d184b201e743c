/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What a good fit by the index has to find, each case on memory of its own. In C,
 * so that the tests and the mutants share it.
 */
#ifndef MOIETY_TESTS_BUDDY_GOOD_FITS_H_
#define MOIETY_TESTS_BUDDY_GOOD_FITS_H_

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

size_t good_fits_count(void);
const char *good_fits_name(size_t index);

/* NULL, or what is wrong; valid until the next call. */
const char *good_fits_run(size_t index);

#ifdef __cplusplus
}
#endif

#endif
