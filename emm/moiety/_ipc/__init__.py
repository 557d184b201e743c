# SPDX-License-Identifier: Apache-2.0
"""Arrays for other processes: what moiety.ipc is made of."""
