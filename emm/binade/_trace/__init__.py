# SPDX-License-Identifier: Apache-2.0
"""Traces: what binade.trace and the commands on traces are made of."""
