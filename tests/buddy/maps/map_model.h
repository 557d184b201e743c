/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Random operations on two streams' maps and their buddy, each repeated on a
 * byte a grain, with the verifiers after every step. In C, so that the tests and
 * the mutants share it.
 */
#ifndef MOIETY_TESTS_BUDDY_MAPS_MAP_MODEL_H_
#define MOIETY_TESTS_BUDDY_MAPS_MAP_MODEL_H_

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MAP_MODEL_MESSAGE_BYTES 256U

/* False: `message` says at which step what went wrong. */
bool map_model_run(uint64_t seed, uint32_t steps,
                   char message[MAP_MODEL_MESSAGE_BYTES]);

#ifdef __cplusplus
}
#endif

#endif
