# SPDX-License-Identifier: Apache-2.0
"""Holds the library's capture guard while a framework captures a graph."""
