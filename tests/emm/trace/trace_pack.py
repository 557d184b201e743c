# SPDX-License-Identifier: Apache-2.0
"""Makes the corpus of what a fuzzer collected."""

import contextlib
import sys

import trace_corpus
from moiety.trace import TraceError
from trace_rule import READERS, opened_bytes


def reached(reads, data):
    """The steps from line to line in the package that the readers make."""
    steps = set()

    def follow(frame, _event, _):
        if "/moiety/_trace/" not in frame.f_code.co_filename:
            return None
        before = None

        def step(frame, _event, _):
            nonlocal before
            steps.add((frame.f_code, before, frame.f_lineno))
            before = frame.f_lineno
            return step
        return step

    for read in reads:
        # Not by check(), whose watch would hear of the tracing.
        with opened_bytes(data) as file, contextlib.suppress(TraceError):
            sys.settrace(follow)
            try:
                read(file)
            finally:
                sys.settrace(None)
    return steps


def pack(reader, folder):
    """The smallest of the folder's files that reach all that they reach."""
    known, kept = set(), []
    files = [path.read_bytes() for path in folder.iterdir()]
    for data in sorted(files, key=lambda data: (len(data), data)):
        steps = reached(READERS[reader], data)
        if len(data) <= trace_corpus.INPUT_BYTES_MAX and steps - known:
            known |= steps
            kept.append(data)
    trace_corpus.save(reader, kept[:trace_corpus.INPUTS_MAX])
    print(f"{len(kept)} of {len(files)} files reach {len(known)} steps; "
          f"{min(len(kept), trace_corpus.INPUTS_MAX)} are kept")
