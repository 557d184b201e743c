# SPDX-License-Identifier: Apache-2.0
"""Handles of blocks across processes."""

import subprocess
import sys

import binade
import pytest
from binade import _native

CHILD = """
import ctypes, os, sys
from binade import _native
driver = ctypes.CDLL(os.environ.get("BINADE_DRIVER", "libcuda.so.1"))
context = ctypes.c_void_p()
assert driver.cuInit(0) == 0
assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert driver.cuCtxSetCurrent(context) == 0
handle = bytes.fromhex(sys.argv[1])
address = _native.ipc_open(handle)
assert _native.ipc_open(handle) == address
_native.ipc_close(address)
_native.ipc_wait(_native.ipc_close(address))
print(hex(address))
"""


@pytest.fixture
def exportable():
    with binade.Pool(exportable=True) as pool:
        yield pool


def test_another_process_opens_it_with_its_offset(exportable):
    exportable.alloc(4096)
    block = exportable.alloc(1 << 20)
    handles = [exportable.export(block.address + at) for at in (0, 4096)]
    ended = [subprocess.run([sys.executable, "-c", CHILD, handle.hex()],
                            capture_output=True, text=True, timeout=120,
                            check=False) for handle in handles]
    assert [one.stderr for one in ended] == ["", ""]
    assert all(int(one.stdout, 16) for one in ended)
    exportable.release_exports(block.address)


def test_this_process_gets_its_own_address(exportable):
    block = exportable.alloc(1 << 20)
    handle = exportable.export(block.address + 512)
    address = _native.ipc_open(handle)
    assert address == block.address + 512
    _native.ipc_wait(_native.ipc_close(address))
    exportable.release_exports(block.address)


@pytest.mark.parametrize("spoil", [
    lambda handle: b"", lambda handle: handle[:-1],
    lambda handle: bytes([handle[0] + 1]) + handle[1:],
    lambda handle: handle[:-1] + bytes([handle[-1] ^ 1])])
def test_handles_that_are_none(exportable, spoil):
    block = exportable.alloc(4096)
    handle = exportable.export(block.address)
    with pytest.raises(binade.Error) as raised:
        _native.ipc_open(spoil(handle))
    assert raised.value.status in ("E_INVALID", "E_CORRUPT", "E_UNSUPPORTED")
    exportable.release_exports(block.address)


def test_what_is_not_open_cannot_be_closed():
    with pytest.raises(binade.Error):
        _native.ipc_close(0x1000)


def test_guard_is_counted():
    _native.capture_guard_begin()
    _native.capture_guard_end()
    with pytest.raises(binade.Error) as raised:
        _native.capture_guard_end()
    assert raised.value.status == "E_INVALID"
