# SPDX-License-Identifier: Apache-2.0
"""What `moiety doctor` looks at and says."""
