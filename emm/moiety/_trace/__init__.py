# SPDX-License-Identifier: Apache-2.0
"""Traces: what moiety.trace and the commands on traces are made of."""
