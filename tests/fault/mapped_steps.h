/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A step of the scenario for what only mapped memory has: a peer, sharing by
 * descriptors, pauses; and for the segments that transports hold.
 */
#ifndef MOIETY_TESTS_FAULT_MAPPED_STEPS_H_
#define MOIETY_TESTS_FAULT_MAPPED_STEPS_H_

#include "tests/fault/scenario.h"

namespace fault_test
{

void Mapped(World &world);

} // namespace fault_test

#endif
