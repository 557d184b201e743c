# SPDX-License-Identifier: Apache-2.0
"""What the C module has in Python: numbers as objects, with-blocks, the
frameworks' current stream."""
