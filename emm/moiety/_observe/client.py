# SPDX-License-Identifier: Apache-2.0
"""Asks a process that exposes its pools: one line to its Unix socket, one JSON
object back."""

import json
import os
import socket
import time

FORMAT = 1
# Longer than the other side ever takes, and more than it ever has to say.
TIMEOUT_S = 40.0
ANSWER_BYTES_MAX = 1 << 30


class ExposeError(Exception):
    """The process cannot be reached, or did not answer as Moiety does."""


def _left(end_s):
    left_s = end_s - time.monotonic()
    if left_s <= 0:
        raise socket.timeout("timed out")
    return left_s


def _read(connection, end_s):
    pieces, size = [], 0
    while True:
        connection.settimeout(_left(end_s))
        piece = connection.recv(1 << 16)
        if not piece:
            return b"".join(pieces)
        pieces.append(piece)
        size += len(piece)
        if size > ANSWER_BYTES_MAX:
            raise ExposeError("the answer does not end")


def _exchange(path, request, timeout_s):
    end_s = time.monotonic() + timeout_s
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(_left(end_s))
        connection.connect(os.fspath(path))
        connection.sendall(request.encode() + b"\n")
        return _read(connection, end_s)


def _answer_of(data):
    """A dictionary; ExposeError for what is none, or says that it failed."""
    if not data:
        raise ExposeError("it was closed without an answer: the process is "
                          "another user's, or no Moiety's")
    try:
        answer = json.loads(data) if data.endswith(b"\n") else None
    except (ValueError, RecursionError):
        answer = None
    if not isinstance(answer, dict):
        raise ExposeError("the answer is cut off, or none of Moiety's")
    error = answer.get("error")
    if error:
        raise ExposeError(error.get("message", "unknown")
                          if isinstance(error, dict) else "unknown")
    if answer.get("format") != FORMAT:
        raise ExposeError(f"the answer has the format {answer.get('format')!r},"
                          f" not {FORMAT}: update moiety here or there")
    return answer


def ask(path, request, pool=None, timeout_s=TIMEOUT_S):
    """The answer to "stats", "heap" or "snapshot", of one pool or of all, as a
    dictionary. Every reason why there is none is an ExposeError."""
    words = request if pool is None else f"{request} {pool}"
    try:
        return _answer_of(_exchange(path, words, timeout_s))
    except ExposeError as error:
        raise ExposeError(f"{os.fspath(path)}: {error}") from None
    except ConnectionRefusedError:
        why = "nobody serves there any more"
    except socket.timeout:
        why = f"no answer within {timeout_s:g} s"
    except OSError as error:
        why = error.strerror or str(error)
    raise ExposeError(f"{os.fspath(path)}: {why}")
