# SPDX-License-Identifier: Apache-2.0
"""How fast a region is made, opened, and taken over when the process that made it is
killed.

    regions.py [--gib=N] [--handles=SIZE,...] [--times=N] [ARGUMENT...]

A process makes a region of N GiB on device 0, fills it and commits it. Then, so often:

open       a process that has a context opens it, copies the first and the last byte
           of each handle's memory, and closes it
takeover   the process that made it is killed by SIGKILL, and another one opens it and
           copies the same bytes: one with a context ("warm", timed from the kill), or
           one that starts then ("new", timed from its start)

Prints a row of JSON for each. ARGUMENTs are for `moiety serve`, such as --accept-memfd
for the stand-in driver. Needs the package `moiety`."""

import argparse
import contextlib
import ctypes
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import moiety
import moiety.regions

NAME = "measured"
VALUE = 77


@contextlib.contextmanager
def served(*arguments):
    """The path of a keeper that answers."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "keeper")
        keeper = subprocess.Popen([sys.executable, "-m", "moiety", "serve",
                                   f"--socket={path}", *arguments])
        try:
            while keeper.poll() is None:
                with contextlib.suppress(moiety.PeerGoneError):
                    moiety.regions.connect(path).close()
                    break
                time.sleep(0.01)
            yield path
        finally:
            keeper.send_signal(signal.SIGTERM)
            keeper.wait()


def driver():
    library = ctypes.CDLL(moiety.probe(0)["library_path"])
    context = ctypes.c_void_p()
    assert not library.cuInit(0)
    assert not library.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
    assert not library.cuCtxSetCurrent(context)
    return library


def ms_since(begun):
    return round(1e3 * (time.monotonic() - begun), 3)


def make(path, nbytes, handle):
    """Says what it took, and waits to be killed."""
    library = driver()
    keeper = moiety.regions.connect(path)
    begun = time.monotonic()
    region = keeper.create(NAME, {0: nbytes}, handle_nbytes=handle)
    created = ms_since(begun)
    part = region.parts[0]
    assert not library.cuMemsetD8_v2(ctypes.c_uint64(part.address),
                                     ctypes.c_ubyte(VALUE),
                                     ctypes.c_size_t(part.nbytes))
    assert not library.cuCtxSynchronize()
    begun = time.monotonic()
    region.commit()
    print(json.dumps({"create_ms": created, "commit_ms": ms_since(begun)}),
          flush=True)
    signal.pause()


def look(library, part, handle):
    """Copies the ends of all handles."""
    seen = ctypes.c_ubyte()
    for begin in range(0, part.nbytes, handle):
        for at in (begin, min(begin + handle, part.nbytes) - 1):
            assert not library.cuMemcpyDtoH_v2(
                ctypes.byref(seen), ctypes.c_uint64(part.address + at),
                ctypes.c_size_t(1))
            if seen.value != VALUE:
                return False
    return True


def opened(library, keeper, handle):
    """Milliseconds to open it, the moment when all was copied, whether it was
    right, and milliseconds to close it."""
    begun = time.monotonic()
    region = keeper.open(NAME)
    ms = ms_since(begun)
    is_right = look(library, region.parts[0], handle)
    end = time.monotonic()
    region.close()
    return {"open_ms": ms, "end": end, "is_right": is_right,
            "first_use_ms": round(1e3 * (end - begun), 3),
            "close_ms": ms_since(end)}


def read(path, handle):
    """For each line of its input."""
    library = driver()
    keeper = moiety.regions.connect(path)
    print("ready", flush=True)
    for _ in sys.stdin:
        print(json.dumps(opened(library, keeper, handle)), flush=True)


def read_new(path, handle):
    library = driver()
    with moiety.regions.connect(path) as keeper:
        print(json.dumps(opened(library, keeper, handle)), flush=True)


class Measured:
    """A keeper, and processes of this program in their roles."""

    def __init__(self, path, options):
        self.path, self.options = path, options

    def start(self, role, *more):
        return subprocess.Popen(
            [sys.executable, __file__, "--role", role, self.path,
             *map(str, more)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True)

    def made(self, nbytes, handle):
        maker = self.start("make", nbytes, handle)
        return maker, json.loads(maker.stdout.readline())

    @staticmethod
    def ask(reader):
        reader.stdin.write("\n")
        reader.stdin.flush()
        return json.loads(reader.stdout.readline())

    def run(self, nbytes, handle):
        row = {"bytes": nbytes, "handle_bytes": handle, "commit": os.environ.get(
            "MOIETY_COMMIT", "")}
        reader = self.start("read", handle)
        assert reader.stdout.readline() == "ready\n"
        opens, made = [], []
        takeover = {"warm": [], "new": []}
        for _ in range(self.options.times):
            maker, took = self.made(nbytes, handle)
            made.append(took)
            opens += [self.ask(reader) for _ in range(3)]
            for kind in ("warm", "new"):
                begun = time.monotonic()
                if kind == "warm":
                    os.kill(maker.pid, signal.SIGKILL)
                    found = self.ask(reader)
                else:
                    new = self.start("new", handle)
                    found = json.loads(new.stdout.readline())
                    new.wait()
                assert found["is_right"]
                takeover[kind].append(round(1e3 * (found["end"] - begun), 3))
            maker.wait()
            with moiety.regions.connect(self.path) as keeper:
                keeper.drop(NAME)
                while keeper.entries():
                    time.sleep(0.001)
        assert all(one["is_right"] for one in opens)
        for name in ("create_ms", "commit_ms"):
            self.show(row, name, [one[name] for one in made])
        for name in ("open_ms", "first_use_ms", "close_ms"):
            self.show(row, name, [one[name] for one in opens])
        for kind, times in takeover.items():
            self.show(row, f"takeover_{kind}_ms", times)
        reader.stdin.close()
        reader.wait()

    @staticmethod
    def show(row, what, times):
        print(json.dumps({"kind": "regions", "what": what, **row,
                          "median": round(statistics.median(times), 3),
                          "all": times}), flush=True)


def bytes_of(text):
    units = {"M": 20, "G": 30}
    return int(text[:-1]) << units[text[-1]] if text[-1] in units else int(text)


def main():
    if sys.argv[1:2] == ["--role"]:
        role, path, *rest = sys.argv[2:]
        return {"make": make, "read": read, "new": read_new}[role](
            path, *map(int, rest))
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--gib", type=float, default=60)
    parser.add_argument("--handles", default="1G,64M")
    parser.add_argument("--times", type=int, default=5)
    options, more = parser.parse_known_args()
    with served(*more) as path:
        for handle in options.handles.split(","):
            Measured(path, options).run(int(options.gib * (1 << 30)),
                                        bytes_of(handle))
    return 0


if __name__ == "__main__":
    sys.exit(main())
