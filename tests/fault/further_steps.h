/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Steps of the scenario for what stands beside the pool: tenants, capture
 * scopes, private arenas, frees on a block's own stream, history, snapshots,
 * checked mode, host arenas, pinned ranges, exposing.
 */
#ifndef MOIETY_TESTS_FAULT_FURTHER_STEPS_H_
#define MOIETY_TESTS_FAULT_FURTHER_STEPS_H_

#include "tests/fault/scenario.h"

namespace fault_test
{

void Tenants(World &world);
void Scopes(World &world);
void PrivateArenas(World &world);
void ResizeAndFreeAll(World &world);
void FreeOwn(World &world);
void LookBack(World &world);
void Record(World &world);
void Snapshot(World &world);
void Checked(World &world);
void HostArena(World &world);
void Pins(World &world);
void Expose(World &world);

} // namespace fault_test

#endif
