# SPDX-License-Identifier: Apache-2.0
"""What fuzzing found worth keeping: a text file for each reader, in which each
line is one input in base64."""

import base64
import pathlib
import sys

FOLDER = pathlib.Path(__file__).parent / "trace_corpus"
NAMES = ("text", "rmm", "torch")
INPUT_BYTES_MAX = 4096
INPUTS_MAX = 150


def load(reader, folder=FOLDER):
    text = (folder / f"{reader}.txt").read_text()
    return [base64.b64decode(line, validate=True) for line in text.splitlines()]


def save(reader, inputs, folder=FOLDER):
    lines = sorted(base64.b64encode(data).decode() for data in inputs)
    (folder / f"{reader}.txt").write_text("".join(f"{line}\n" for line in lines))


def reached(work):
    """The steps from line to line in the package's traces that it makes."""
    steps = set()

    def follow(frame, event, _):
        if "/binade/_trace_" not in frame.f_code.co_filename:
            return None
        before = None

        def step(frame, _event, _):
            nonlocal before
            steps.add((frame.f_code, before, frame.f_lineno))
            before = frame.f_lineno
            return step
        return step

    sys.settrace(follow)
    try:
        work()
    finally:
        sys.settrace(None)
    return steps


def pack(reader, folder):
    """The smallest of the folder's files that reach all that they reach."""
    from trace_rule import READERS, check
    known, kept = set(), []
    files = [path.read_bytes() for path in folder.iterdir()]
    for data in sorted(files, key=lambda data: (len(data), data)):
        steps = reached(
            lambda: [check(read, data) for read in READERS[reader]])
        if len(data) <= INPUT_BYTES_MAX and steps - known:
            known |= steps
            kept.append(data)
    save(reader, kept[:INPUTS_MAX])
    print(f"{len(kept)} of {len(files)} files reach {len(known)} steps; "
          f"{min(len(kept), INPUTS_MAX)} are kept")
