/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Moiety for C++17: owners that end themselves, exceptions for statuses, and a
 * std::pmr resource over pinned memory. Header only: it calls the C library.
 * (moiety/cxx/cuda_resource.hpp, which needs CCCL, is included by itself.)
 *
 * Rules of all owners, unless one says otherwise:
 *
 * Moves:    they can be moved, not copied. One that was moved from owns nothing and
 *           can end, or be assigned to: that swaps the two.
 * Failures: constructors and functions throw status_error or out_of_memory, and then
 *           nothing has changed. Destructors throw nothing: report() has what they
 *           are refused.
 * Threads:  as the C functions. An owner itself is not shared while it is assigned to
 *           or ends.
 */
#ifndef MOIETY_MOIETY_HPP_
#define MOIETY_MOIETY_HPP_

/* IWYU pragma: begin_exports */
#include "moiety/cxx/capture.hpp"
#include "moiety/cxx/error.hpp"
#include "moiety/cxx/host.hpp"
#include "moiety/cxx/ipc.hpp"
#include "moiety/cxx/pool.hpp"
#include "moiety/cxx/segment.hpp"
#include "moiety/cxx/tenant.hpp"
#include "moiety/cxx/trace.hpp"
#include "moiety/moiety.h"
/* IWYU pragma: end_exports */

#endif
