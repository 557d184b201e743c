# SPDX-License-Identifier: Apache-2.0
"""What moiety doctor says about packages that are installed."""

from types import SimpleNamespace

import pytest

from moiety._doctor import packages, stacks


@pytest.fixture
def machine():
    return SimpleNamespace(environment={}, driver_version=13000)


def plant(folder, name, text):
    """A module with that name."""
    *packages, module = name.split(".")
    for package in packages:
        folder = folder / package
        folder.mkdir()
        (folder / "__init__.py").write_text("")
    (folder / f"{module}.py").write_text(text)


@pytest.mark.parametrize("text, verdict, words", [
    ("class CUDAGraph:\n"
     "    def capture_begin(self): pass\n"
     "    def capture_end(self): pass\n", "ok", "holds the guard"),
    ("class CUDAGraph:\n    def begin(self): pass\n", "unsafe",
     "does not know how this version of torch.cuda.graphs captures"),
    ("raise ImportError('no such library')\n", "unknown", "no such library"),
], ids=["known", "changed", "broken"])
def test_a_framework_is_asked_how_it_captures(tmp_path, monkeypatch, machine,
                                              text, verdict, words):
    plant(tmp_path, "torch.cuda.graphs", text)
    monkeypatch.syspath_prepend(tmp_path)
    found = packages.torch(machine)
    assert (found.check, found.verdict) == ("PyTorch", verdict)
    assert words in found.reason


def test_a_cupy_that_has_changed_is_unsafe(tmp_path, monkeypatch, machine):
    plant(tmp_path, "cupy.cuda.stream", "class Stream: pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    found = packages.cupy(machine)
    assert (found.check, found.verdict) == ("CuPy", "unsafe")
    assert "cupy.cuda.stream" in found.reason and found.advice


def test_a_numba_that_cannot_be_used_is_named(tmp_path, monkeypatch, machine):
    plant(tmp_path, "numba.cuda", "raise ImportError('too old')\n")
    monkeypatch.syspath_prepend(tmp_path)
    found = packages.numba(machine)
    assert found.verdict == "lacking"
    assert "moiety.numba cannot be used: " in found.reason and found.advice


def test_a_numpy_that_cannot_be_used_is_named(tmp_path, monkeypatch, machine):
    plant(tmp_path, "numpy", "raise ImportError('too old')\n")
    monkeypatch.syspath_prepend(tmp_path)
    found = packages.numpy(machine)
    assert found.verdict == "lacking" and found.reason.endswith(
        "moiety.numpy cannot be used: ImportError: too old")


@pytest.fixture
def numba_is_0_56(monkeypatch):
    monkeypatch.setattr(packages, "is_installed", lambda name: True)
    monkeypatch.setattr(packages, "in_child", lambda code: ("numba", None))
    monkeypatch.setattr(packages, "_versions",
                        lambda *names: "numba 0.56.4")


@pytest.mark.parametrize("driver, conf, verdict, words", [
    (13000, "", "lacking", "drivers of CUDA 13"),
    (12080, "", "ok", "can be used"), (None, "", "ok", "can be used"),
    (12080, "limit:1G,checked:1", "lacking", "with checked:1 its pools"),
    (12080, "memory:mapped", "lacking",
     "get_ipc_handle() fails for mapped memory"),
    (12080, "memory:mapped,exportable:0", "ok", "can be used"),
    (12080, "checked:1,exportable:0", "ok", "can be used")])
def test_numba_with_drivers_and_settings(machine, numba_is_0_56, driver, conf,
                                         verdict, words):
    machine.driver_version = driver
    machine.environment["MOIETY_CONF"] = conf
    found = packages.numba(machine)
    assert found.verdict == verdict and words in found.reason


@pytest.mark.parametrize("shape, verdict, words", [
    ("reserved = property(lambda self: self.data.raw, lambda *_: None)", "ok",
     "numba pickles its IPC handles"),
    ("pass", "ok", "Moiety pickles its IPC handles"),
    ("del getPtr", "lacking", "get_ipc_handle() fails: ")],
    ids=["readable", "opaque", "unknown"])
def test_numba_handles_are_looked_at(machine, monkeypatch, shape, verdict,
                                     words):
    made = f"""
import ctypes
from moiety._numba import ipc
from numba.cuda.cudadrv import driver
class Handle:
    def __init__(self):
        self.data = ctypes.create_string_buffer(64)
    def getPtr(self):
        return ctypes.addressof(self.data)
    __slots__ = ("data",)
    {shape}
driver.binding.CUipcMemHandle = Handle
"""
    monkeypatch.setattr(packages, "_NUMBA", packages._NUMBA.replace(
        "import moiety.numba\n", "import moiety.numba\n" + made))
    found = packages.numba(machine)
    assert (found.verdict, words in found.reason) == (verdict, True), found
    assert "cuda-bindings " in found.reason


def test_what_is_not_installed_is_not_checked(machine, monkeypatch):
    monkeypatch.setattr(packages, "is_installed", lambda name: False)
    for check in ("numba", "numpy", "torch", "cupy", "cuda_core"):
        assert getattr(packages, check)(machine) is None


CUPY = {
    "__init__": "", "device": "def get_device_id(): return 0\n",
    "memory": "class OutOfMemoryError(MemoryError): pass\n"
              "class UnownedMemory: pass\n"
              "class MemoryPointer: pass\n"
              "class MemoryPool:\n"
              "    def malloc(self): pass\n"
              "def get_allocator(): return MemoryPool().malloc\n",
    "pinned_memory": "",
    "stream": "class Stream:\n"
              "    def begin_capture(self): pass\n"
              "    def end_capture(self): pass\n"}


def plant_cupy(folder, files):
    for name, text in files.items():
        path = folder / "cupy" / "cuda" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (folder / "cupy" / "__init__.py").write_text("")


def test_whose_memory_each_library_takes(tmp_path, monkeypatch, machine):
    plant_cupy(tmp_path, CUPY)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("NUMBA_CUDA_MEMORY_MANAGER", "moiety.numba")
    found = stacks.allocators(machine)
    assert (found.check, found.verdict) == ("allocators", "ok"), found
    for words in ("CuPy of unknown version takes memory of "
                  "cupy.cuda.memory.MemoryPool", "moiety.cupy.enable()",
                  "takes memory of the driver (device.memory_resource = ",
                  "takes memory of moiety.numba", "PyTorch is not installed"):
        assert words in found.reason, found.reason


def test_a_library_that_moiety_cannot_serve(tmp_path, monkeypatch, machine):
    plant_cupy(tmp_path, {"__init__": ""})
    monkeypatch.syspath_prepend(tmp_path)
    found = stacks.allocators(machine)
    assert found.verdict == "lacking" and found.advice
    assert "moiety.cupy cannot be used: ImportError: moiety.cupy needs CuPy" \
        in found.reason


def test_no_library_is_installed(machine, monkeypatch):
    monkeypatch.setattr(packages, "is_installed", lambda name: False)
    found = stacks.allocators(machine)
    assert found.verdict == "ok"
    assert found.reason.count("is not installed") == len(stacks.LIBRARIES)
