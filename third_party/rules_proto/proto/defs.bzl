# SPDX-License-Identifier: Apache-2.0
"""Stands in for @rules_proto under Bazel 4, whose own tools load it."""

proto_lang_toolchain = native.proto_lang_toolchain
proto_library = native.proto_library
