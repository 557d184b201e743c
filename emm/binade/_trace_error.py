# SPDX-License-Identifier: Apache-2.0
"""What is wrong with a trace, and where."""


class TraceError(ValueError):
    """A trace, log or snapshot that is not what it has to be.

    .line is the number of the line, from 1 on, or None; .offset the number of
    bytes before the place in a binary file, or None.
    """

    def __init__(self, message, *, line=None, offset=None):
        super().__init__(message)
        self.line = line
        self.offset = offset

    def __str__(self):
        message = super().__str__()
        if self.line is not None:
            return f"line {self.line}: {message}"
        if self.offset is not None:
            return f"offset {self.offset}: {message}"
        return message
