# SPDX-License-Identifier: Apache-2.0
"""Arrays for other processes: what binade.ipc is made of."""
