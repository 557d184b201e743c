# SPDX-License-Identifier: Apache-2.0
"""Stands in for @rules_cc's cc_info.bzl under Bazel 4."""

load(":native.bzl", "native_cc_info")

CcInfo = native_cc_info
