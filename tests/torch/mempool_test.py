# SPDX-License-Identifier: Apache-2.0
"""moiety.torch.MemPool, with a PyTorch and a library that note what they are asked:
what it refuses, and what it hands on."""

import ctypes
import types

import pytest

import moiety
import moiety.torch
from moiety import _native
from moiety._torch import mempool


E_INVALID = 1


def native_fail(status, message):
    """moiety_fail() of the library that the package has loaded."""
    return ctypes.CDLL(_native.__file__).moiety_fail(status, message)


class Library(ctypes.CDLL):
    """libmoiety_torch.so, as far as memory pools go."""

    def __init__(self):
        super().__init__(None)
        self.calls, self.error = [], None

    def note(self, name, *arguments):
        pool = ctypes.cast(arguments[0],
                           ctypes.POINTER(mempool._MemPool)).contents
        self.calls.append((name, pool.device, tuple(pool.id),
                           pool.limit_bytes, pool.tenant_name,
                           *(word.value for word in arguments[1:])))
        if not self.error:
            return 0
        return native_fail(E_INVALID, self.error)

    def moiety_torch_mempool_set(self, *arguments):
        return self.note("set", *arguments)

    def moiety_torch_mempool_pause(self, *arguments):
        return self.note("pause", *arguments)

    def moiety_torch_mempool_resume(self, *arguments):
        return self.note("resume", *arguments)


class PyTorchsMemPool:
    id = (0, 5)

    def __init__(self, use_on_oom=False):
        self.use_on_oom = use_on_oom


@pytest.fixture
def library(monkeypatch):
    torch = types.ModuleType("torch")
    torch.cuda = types.SimpleNamespace(MemPool=PyTorchsMemPool,
                                       current_device=lambda: 1)
    library = Library()
    monkeypatch.setattr(moiety.torch, "_torch", lambda: torch)
    monkeypatch.setattr(moiety.torch, "_enabled", library)
    return library


def test_a_tenant(library):
    pool = moiety.torch.pausable_pool("sleeper", limit=8 << 20, use_on_oom=True)
    assert isinstance(pool, PyTorchsMemPool) and pool.use_on_oom
    pool.pause()
    pool.resume()
    pool.pause(keep_contents=True)
    wanted = (1, (0, 5), 8 << 20, b"sleeper")
    assert library.calls == [("set", *wanted), ("pause", *wanted, 0),
                             ("resume", *wanted), ("pause", *wanted, 1)]


def test_fixed_memory(library):
    moiety.torch.fixed_pool()
    assert library.calls == [("set", 1, (0, 5), 0, None)]


def test_pools_are_of_one_class(library):
    assert type(moiety.torch.fixed_pool()) is \
        type(moiety.torch.pausable_pool("some"))


def test_errors_are_the_librarys(library):
    pool = moiety.torch.fixed_pool()
    library.error = b"it has no tenant"
    with pytest.raises(moiety.Error, match="it has no tenant"):
        pool.pause()
    with pytest.raises(moiety.Error, match="it has no tenant"):
        pool.resume()
    with pytest.raises(moiety.Error, match="it has no tenant"):
        moiety.torch.pausable_pool("some")


@pytest.mark.parametrize("options, error, words", [
    ({}, TypeError, "name"),
    ({"name": ""}, ValueError, "accepted are 1 to 31 bytes"),
    ({"name": "é" * 16}, ValueError, "accepted are 1 to 31 bytes"),
    ({"name": "a", "limit": -1}, OverflowError, "accepted are whole numbers"),
    ({"name": "a", "limit": 1 << 63}, ValueError, "accepted are 0 to"),
    ({"name": "a", "limit": "8 G"}, ValueError, "limit is '8 G'"),
    ({"name": "a", "limit": 1.5}, TypeError, "limit is 1.5"),
])
def test_bad_options(library, options, error, words):
    with pytest.raises(error, match=words):
        moiety.torch.pausable_pool(**options)
    assert not library.calls


@pytest.mark.parametrize("enabled", [None, (ctypes.CDLL(None), "a plug-in")])
def test_it_takes_the_allocator(library, monkeypatch, enabled):
    monkeypatch.setattr(moiety.torch, "_enabled", enabled)
    with pytest.raises(moiety.Error, match="needs Moiety as PyTorch's alloc"):
        moiety.torch.fixed_pool()


class Counting:
    """torch.cuda as far as peak() goes."""

    def __init__(self):
        self.live, self.most, self.devices = 100, 900, set()

    def use(self, nbytes):
        self.live += nbytes
        self.most = max(self.most, self.live)

    def reset_peak_memory_stats(self, device):
        self.most = self.live
        self.devices.add(device)

    def memory_allocated(self, device):
        self.devices.add(device)
        return self.live

    def max_memory_allocated(self, device):
        self.devices.add(device)
        return self.most

    def max_memory_reserved(self, device):
        self.devices.add(device)
        return 1000


def test_the_peak_of_a_step(monkeypatch):
    cuda = Counting()
    monkeypatch.setattr(moiety.torch, "_torch",
                        lambda: types.SimpleNamespace(cuda=cuda))

    def step():
        cuda.use(50)
        cuda.use(-30)
        return "done"

    assert moiety.torch.peak(step, device=1) == ("done", 100, 150, 120, 1000)
    assert cuda.devices == {1}
    assert moiety.torch.peak(lambda: None).most == 120
    with pytest.raises(ZeroDivisionError):
        moiety.torch.peak(lambda: 1 // 0)
    with pytest.raises(TypeError, match="did you mean 'device'"):
        moiety.torch.peak(step, devcie=1)
