# SPDX-License-Identifier: Apache-2.0
"""Moiety behind PyTorch: the library that is PyTorch's allocator, and how it is
made for the release that is installed."""
