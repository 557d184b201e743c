# SPDX-License-Identifier: Apache-2.0
"""The reduced plug-in, with a PyTorch that has its interface for plug-ins and no
more: when it serves, what is said, and the functions that PyTorch gets."""

import ctypes
import types
import warnings

import pytest

import moiety
import moiety.torch
from moiety._torch import build, pluggable

MIB = 1 << 20


class Hooks:
    """torch._C._cuda_CUDAAllocator as far as setters go."""

    def __init__(self, names):
        self.addresses = {}
        for name in names:
            setattr(self, name, lambda address, name=name:
                    self.addresses.update({name: address}))


class PluggableAllocator:
    hooks = tuple(pluggable.HOOKS)

    def __init__(self, path, alloc, free):
        library = ctypes.CDLL(path)
        self.alloc = ctypes.CFUNCTYPE(
            ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p)(
                ctypes.cast(getattr(library, alloc), ctypes.c_void_p).value)
        self.free = ctypes.CFUNCTYPE(
            None, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int,
            ctypes.c_void_p)(
                ctypes.cast(getattr(library, free), ctypes.c_void_p).value)
        self._hooks = Hooks(self.hooks)

    def allocator(self):
        return self._hooks


@pytest.fixture
def torch(monkeypatch, tmp_path):
    """With nothing to compile for it; and what became its allocator."""
    current = []
    fake = types.SimpleNamespace(
        __version__="2.11.0", __file__=str(tmp_path / "torch/__init__.py"),
        version=types.SimpleNamespace(cuda="13.0", git_version="abc"),
        _C=types.SimpleNamespace(_GLIBCXX_USE_CXX11_ABI=True),
        current=current,
        cuda=types.SimpleNamespace(
            is_initialized=lambda: False,
            memory=types.SimpleNamespace(
                CUDAPluggableAllocator=PluggableAllocator,
                change_current_allocator=current.append)))
    monkeypatch.setattr(moiety.torch, "_torch", lambda: fake)
    monkeypatch.setattr(moiety.torch, "_enabled", None)
    monkeypatch.setattr(PluggableAllocator, "hooks", tuple(pluggable.HOOKS))
    monkeypatch.setenv("MOIETY_TORCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CXX", "/no/such/compiler")
    for header in ("cuda_runtime_api.h", "crt/host_defines.h"):
        path = tmp_path / "nvidia/cu13/include" / header
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return fake


def test_it_serves_where_there_is_no_compiler(torch):
    with pytest.warns(RuntimeWarning) as seen:
        moiety.torch.enable(limit=256 * MIB)
    [warning] = seen
    assert warning.filename == __file__
    for words in ("reduced plug-in", "/no/such/compiler: there is no such C++",
                  "build-essential", "It lacks statistics", "snapshots",
                  "torch.multiprocessing", "checkpoints"):
        assert words in str(warning.message)
    assert "has no hook" not in str(warning.message)
    assert moiety.torch.is_enabled()
    [allocator] = torch.current
    addresses = allocator.allocator().addresses
    assert set(addresses) == set(pluggable.HOOKS) and all(addresses.values())
    with pytest.raises(moiety.Error, match="already"):
        moiety.torch.enable()

    block = allocator.alloc(MIB, 0, None)
    pool = moiety.pool_of(block)
    assert pool.limit == 256 * MIB and pool.used_bytes >= MIB
    record = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(
        addresses["set_record_stream_fn"])
    record(block, None)
    bytes_ = ctypes.c_size_t()
    base = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p,
                            ctypes.POINTER(ctypes.c_size_t))(
        addresses["set_base_alloc_fn"])(block, ctypes.byref(bytes_))
    assert base <= block < base + bytes_.value
    allocator.free(block, MIB, 0, None)
    reset = ctypes.CFUNCTYPE(None)(addresses["set_reset_fn"])
    reset()


def test_hooks_that_a_release_lacks_are_named(torch, monkeypatch):
    monkeypatch.setattr(PluggableAllocator, "hooks", ("set_init_fn",))
    with pytest.warns(RuntimeWarning, match="has no hook for reset, memory_fr"):
        moiety.torch.enable()


def test_what_a_compiler_said_is_told_in_a_line():
    text = "c++ -o ...\nIn file included from a:1:\nb.h:2: error: no\n  2 | x"
    assert pluggable.summary(text) == "b.h:2: error: no"
    assert pluggable.summary("no compiler\nat all") == "no compiler"


@pytest.mark.parametrize("options", [
    {"reduced": False}, {"ipc": True}, {"exact_peaks": True},
    {"pinned": True}])
def test_it_does_not_serve_where_more_is_wanted(torch, options):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(build.BuildError, match="no such C.. compiler"):
            moiety.torch.enable(**options)
    assert not moiety.torch.is_enabled() and not torch.current


def test_it_can_be_wanted(torch, monkeypatch):
    monkeypatch.setattr(build, "load", None)
    with pytest.warns(RuntimeWarning, match="reduced=True"):
        moiety.torch.enable(reduced=True)
    assert moiety.torch.is_enabled() and torch.current


@pytest.mark.parametrize("options", [
    {"ipc": True}, {"exact_peaks": True}, {"pinned": True}])
def test_what_it_has_not_cannot_be_wanted_with_it(torch, options):
    with pytest.raises(ValueError, match="neither ipc nor exact_peaks nor"):
        moiety.torch.enable(reduced=True, **options)


def test_a_pytorch_without_plug_ins(torch):
    del torch.cuda.memory.CUDAPluggableAllocator
    with pytest.raises(moiety.Error, match="takes no plug-in here"):
        moiety.torch.enable(reduced=True)
    assert not moiety.torch.is_enabled()
