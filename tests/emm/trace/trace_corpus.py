# SPDX-License-Identifier: Apache-2.0
"""What fuzzing found worth keeping: a text file for each reader, in which each
line is one input in base64."""

import base64
import pathlib

NAMES = ("text", "rmm", "torch")
FOLDER = pathlib.Path(__file__).parent / "corpus"
INPUT_BYTES_MAX = 4096
INPUTS_MAX = 150


def load(reader, folder=FOLDER):
    text = (folder / f"{reader}.txt").read_text()
    return [base64.b64decode(line, validate=True) for line in text.splitlines()]


def save(reader, inputs, folder=FOLDER):
    lines = sorted(base64.b64encode(data).decode() for data in inputs)
    (folder / f"{reader}.txt").write_text("".join(f"{line}\n" for line in lines))
