# SPDX-License-Identifier: Apache-2.0
"""Stands in for @rules_cc's find_cc_toolchain.bzl under Bazel 4."""

CC_TOOLCHAIN_ATTRS = {
    "_cc_toolchain": attr.label(
        default = "@bazel_tools//tools/cpp:current_cc_toolchain",
    ),
}

def find_cc_toolchain(ctx):
    return ctx.attr._cc_toolchain[cc_common.CcToolchainInfo]

def use_cc_toolchain():
    return ["@bazel_tools//tools/cpp:toolchain_type"]
