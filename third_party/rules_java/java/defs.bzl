# SPDX-License-Identifier: Apache-2.0
"""Stands in for @rules_java under Bazel 4, whose own tools load it."""

java_binary = native.java_binary
java_import = native.java_import
java_library = native.java_library
java_package_configuration = native.java_package_configuration
java_plugin = native.java_plugin
java_runtime = native.java_runtime
java_test = native.java_test
java_toolchain = native.java_toolchain
