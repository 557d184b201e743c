# SPDX-License-Identifier: Apache-2.0
"""Bazel 4's own CcInfo under another name, so that cc_info.bzl can give it its
name back: a .bzl file cannot define a global and read the built-in it hides."""

native_cc_info = CcInfo
