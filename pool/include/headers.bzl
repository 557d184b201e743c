# SPDX-License-Identifier: Apache-2.0
"""What users include as <binade/...>."""

HEADERS = [
    "binade/binade.h",
    "binade/binade.hpp",
    "binade/callbacks.h",
    "binade/checked.h",
    "binade/cuda_resource.hpp",
    "binade/expose.h",
    "binade/heap.h",
    "binade/history.h",
    "binade/host.h",
    "binade/ipc.h",
    "binade/oom.h",
    "binade/pool.h",
    "binade/private.h",
    "binade/probe.h",
    "binade/record.h",
    "binade/scope.h",
    "binade/segment.h",
    "binade/source.h",
    "binade/stats.h",
    "binade/status.h",
    "binade/stream.h",
    "binade/tenant.h",
    "binade/types.h",
    "binade/version.h",
]
