# SPDX-License-Identifier: Apache-2.0
"""Stands in for @rules_python under Bazel 4: forwards to the native rules."""

def py_binary(**kwargs):
    native.py_binary(**kwargs)

def py_library(**kwargs):
    native.py_library(**kwargs)

def py_test(**kwargs):
    native.py_test(**kwargs)
