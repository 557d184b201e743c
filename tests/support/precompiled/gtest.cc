// SPDX-License-Identifier: Apache-2.0
//
// What GCC reads once for all tests (BUILD), which halves the time of each of their
// files. A larger choice makes those slower that need less of it.
#include <gtest/gtest.h>
