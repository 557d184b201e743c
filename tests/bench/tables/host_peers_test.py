# SPDX-License-Identifier: Apache-2.0
"""The script that measures Python's pools of pinned memory, with packages that
only count what is asked of them."""

import contextlib
import io
import json
import sys
import types
import unittest
from unittest import mock

import host_peers

OPTIONS = ["--cell-ms=1", "--process=3"]


class Tensor:
    def __init__(self, world, is_pinned):
        self.world = world
        self.pinned = is_pinned
        self.value = None

    def is_pinned(self):
        return self.pinned and self.world.pins

    def fill_(self, value):
        self.value = value

    def copy_(self, other, non_blocking):
        assert non_blocking and other.is_pinned()
        self.world.copies += 1
        self.value = other.value if self.world.copies_right else 0

    def __eq__(self, value):
        return mock.Mock(all=lambda: mock.Mock(item=lambda: self.value == value))


class World:
    """What a fake torch does."""

    def __init__(self, has_device=True, pins=True, copies_right=True,
                 fails_after=None):
        self.has_device = has_device
        self.pins = pins
        self.copies_right = copies_right
        self.fails_after = fails_after
        self.allocations = 0
        self.copies = 0

    def empty(self, size, dtype, pin_memory=False, device=None):
        if pin_memory:
            self.allocations += 1
        if self.fails_after is not None and self.allocations > self.fails_after:
            raise RuntimeError("out of pinned memory")
        assert size in host_peers.SIZES and dtype == "uint8"
        return Tensor(self, pin_memory)

    def torch(self):
        module = types.ModuleType("torch")
        module.__version__ = "9.9"
        module.uint8 = "uint8"
        module.empty = self.empty
        module.cuda = mock.Mock(is_available=lambda: self.has_device)
        module.cuda.stream = lambda _: contextlib.nullcontext()
        return module


class Array:
    """Bytes that are all the same, on the device or not."""

    def __init__(self, world):
        self.world = world
        self.value = None
        self.data = self

    def __setitem__(self, _, value):
        self.value = value

    def copy_from_host_async(self, address, size, stream):
        assert stream is self.world.stream and size in host_peers.SIZES
        self.value = self.world.pinned[address].value

    def __eq__(self, value):
        return mock.Mock(all=lambda: self.value == value)


class CupyWorld:
    """What a fake CuPy does, and the part of NumPy that goes with it."""

    def __init__(self, device_error=None):
        self.device_error = device_error
        self.stream = object()
        self.pinned = {}

    def alloc_pinned_memory(self, size):
        assert size in host_peers.SIZES
        address = 4096 * (len(self.pinned) + 1)
        self.pinned[address] = Array(self)
        return mock.Mock(ptr=address)

    def modules(self):
        class CUDARuntimeError(Exception):
            pass
        cupy = types.ModuleType("cupy")
        cupy.__version__ = "8.8"
        cupy.uint8 = "uint8"
        cupy.empty = lambda size, dtype: Array(self)
        runtime = mock.Mock(CUDARuntimeError=CUDARuntimeError)
        if self.device_error:
            runtime.getDeviceCount.side_effect = \
                CUDARuntimeError(self.device_error)
        cupy.cuda = mock.Mock(runtime=runtime,
                              alloc_pinned_memory=self.alloc_pinned_memory,
                              Stream=lambda non_blocking: self.stream_object())
        numpy = types.ModuleType("numpy")
        numpy.uint8 = "uint8"
        numpy.frombuffer = lambda memory, dtype, count: self.pinned[memory.ptr]
        return {"cupy": cupy, "numpy": numpy}

    def stream_object(self):
        self.stream = mock.Mock()
        return self.stream


def rows(world, arguments=OPTIONS, cupy=None):
    """By subject and size."""
    output = io.StringIO()
    modules = {"torch": world.torch() if world else None,
               **(cupy.modules() if cupy else {"cupy": None})}
    with mock.patch.dict(sys.modules, modules), \
            contextlib.redirect_stdout(output):
        assert host_peers.main(arguments) == 0
    found = [json.loads(line) for line in output.getvalue().splitlines()]
    by_name = {(row["subject"], row["size_bytes"]): row for row in found}
    assert len(by_name) == len(found)
    return by_name


class HostPeers(unittest.TestCase):
    def test_measures_each_size_with_and_without_copies(self):
        world = World()
        found = rows(world)
        for size in host_peers.SIZES:
            for name in ("torch", "torch_copy"):
                row = found[name, size]
                self.assertIsNone(row["error"])
                self.assertIsNone(row["skipped"])
                self.assertEqual((row["what"], row["process"], row["version"]),
                                 ("staging", 3, "9.9"))
                self.assertTrue(0 < row["ns_least"] <= row["ns_median"]
                                <= row["ns_most"])
                self.assertGreaterEqual(row["batches"], 5)
        self.assertGreaterEqual(
            world.allocations,
            sum(row["pairs"] for (name, _), row in found.items()
                if name.startswith("torch")))
        self.assertGreaterEqual(
            world.copies, sum(row["pairs"] for (name, _), row in found.items()
                              if name == "torch_copy"))

    def test_has_copies_pending_together(self):
        row = rows(World())["torch_copy", host_peers.SIZES[0]]
        self.assertGreaterEqual(row["pairs"] // row["batches"],
                                host_peers.COPIES_PENDING)

    def test_says_what_is_missing(self):
        found = rows(None)
        for name, package in (("torch", "PyTorch"), ("cupy", "CuPy")):
            for size in host_peers.SIZES:
                self.assertIn(f"{package} is not installed",
                              found[name, size]["skipped"])
                self.assertIsNone(found[name, size]["error"])

    def test_measures_cupy_without_copies(self):
        cupy = CupyWorld()
        found = rows(None, cupy=cupy)
        pairs = 0
        for size in host_peers.SIZES:
            row = found["cupy", size]
            self.assertEqual((row["error"], row["skipped"], row["version"]),
                             (None, None, "8.8"))
            self.assertNotIn(("cupy_copy", size), found)
            pairs += row["pairs"]
        self.assertGreaterEqual(len(cupy.pinned), pairs)

    def test_sees_bytes_that_cupy_does_not_bring(self):
        with mock.patch.object(Array, "copy_from_host_async"):
            row = rows(None, cupy=CupyWorld())["cupy", host_peers.SIZES[0]]
        self.assertEqual(row["error"], "cupy: the bytes did not arrive")

    def test_says_that_cupy_has_no_device(self):
        row = rows(None, cupy=CupyWorld("none"))["cupy", host_peers.SIZES[0]]
        self.assertEqual(row["skipped"], "CuPy finds no CUDA device: none")

    def test_says_that_there_is_no_device(self):
        row = rows(World(has_device=False))["torch", host_peers.SIZES[0]]
        self.assertEqual(row["skipped"], "PyTorch finds no CUDA device")

    def test_sees_memory_that_is_not_pinned(self):
        row = rows(World(pins=False))["torch", host_peers.SIZES[0]]
        self.assertIn("not pinned", row["error"])
        self.assertNotIn("ns_median", row)

    def test_sees_bytes_that_do_not_arrive(self):
        row = rows(World(copies_right=False))["torch", host_peers.SIZES[0]]
        self.assertIn("did not arrive", row["error"])

    def test_reports_what_a_package_raises(self):
        row = rows(World(fails_after=2))["torch", host_peers.SIZES[0]]
        self.assertEqual(row["error"], "RuntimeError: out of pinned memory")

    def test_begins_nothing_when_the_time_is_over(self):
        found = rows(World(), [*OPTIONS, "--until=1"])
        self.assertEqual({row["skipped"] for (name, _), row in found.items()
                          if name != "cupy"}, {"no time was left"})

    def test_refuses_arguments(self):
        for arguments in (["--fast"], ["--cell-ms=x"], ["cell-ms=1"],
                          ["--cell-ms"]):
            with contextlib.redirect_stderr(io.StringIO()) as errors:
                self.assertEqual(host_peers.main(arguments), 2)
            self.assertIn("bad argument", errors.getvalue())


if __name__ == "__main__":
    unittest.main()
