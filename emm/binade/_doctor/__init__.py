# SPDX-License-Identifier: Apache-2.0
"""What `binade doctor` looks at and says."""
