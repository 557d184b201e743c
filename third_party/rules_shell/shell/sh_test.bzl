# SPDX-License-Identifier: Apache-2.0
"""Stands in for @rules_shell under Bazel 4: forwards to the native rule."""

def sh_test(**kwargs):
    native.sh_test(**kwargs)
