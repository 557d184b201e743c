# SPDX-License-Identifier: Apache-2.0
"""What the package is, before anything is made."""

import re

import moiety
import pytest
from support import run_program


def test_version_is_that_of_the_library():
    assert re.fullmatch(r"\d+\.\d+\.\d+", moiety.__version__)


def pool_with(**options):
    return lambda: moiety.Pool(**options)


def arena_with(**options):
    return lambda: moiety.HostArena(**options)


@pytest.mark.parametrize("call, words", [
    (pool_with(device=99), "device 99 does not exist; the machine has device"),
    (pool_with(limit_bytes=-1), "-1: accepted are whole numbers from 0"),
    (pool_with(wait_ms=1 << 40), r"1099511627776: .* 2\*\*32 - 1"),
    (pool_with(memory="fast"), "'fast'; accepted are 'driver', 'mapped'"),
    (pool_with(limit_bytes=1), "limit_bytes is 1; accepted are 0 and"),
    (arena_with(policy="best"), "'best'; accepted are 'nearest', 'caller'"),
    (arena_with(huge="3M"), "'3M'; accepted are '', '2M' and '1G'"),
    (arena_with(policy="explicit", nodes=[5000]), "nodes has 5000; accepted"),
    (arena_with(write_combined=True, read_only=True),
     "write_combined and read_only"),
    (lambda: moiety.Pool().export(moiety.Pool().alloc(1).address), None),
    (lambda: moiety.Pool().tenant("a", pausable=True), "memory='mapped'"),
    (lambda: moiety.Pool().record_use(1, moiety.DONE), "^DONE is no stream"),
    (lambda: moiety.HostArena().reserve(1 << 21, threads=1000), "threads is"),
])
def test_errors_name_what_python_has(call, words):
    with pytest.raises(Exception, match=words) as raised:
        call()
    said = str(raised.value)
    assert said and "moiety_" not in said and "MOIETY_" not in said


def test_why_a_pool_exports_nothing():
    pool = moiety.Pool()
    block = pool.alloc(1)
    with pytest.raises(moiety.Error, match="made without exportable=True"):
        pool.export(block.address)


def test_what_an_exhausted_pool_says():
    with moiety.Pool(limit_bytes=4 << 20, wait_ms=0) as pool:
        kept = pool.alloc(3 << 20)
        with pytest.raises(moiety.OutOfMemoryError) as raised:
            pool.alloc(3 << 20)
        assert "moiety_" not in str(raised.value)
        assert raised.value.report["live_count"] == 1
        del kept


NO_ADDRESSES = """
    import re, resource, moiety
    def taken():
        with open("/proc/self/status") as lines:
            return int(re.search(r"VmSize:\\s+(\\d+)", lines.read())[1]) << 10
    moiety.Pool(limit_bytes=64 << 20).alloc(1)
    before = taken()
    small = moiety.Pool(limit_bytes=64 << 20)
    assert taken() - before < 32 << 20
    resource.setrlimit(resource.RLIMIT_AS, (taken() + (8 << 20),) * 2)
    try:
        moiety.Pool(limit_bytes=8 << 30)
    except moiety.OutOfMemoryError as error:
        print(error.status, error)
"""


def test_addresses_go_by_the_limit():
    ended = run_program(NO_ADDRESSES)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.startswith("E_NO_HOST_MEMORY no addresses for the")
    assert "ulimit -v" in ended.stdout


def test_a_node_that_is_not_there():
    with pytest.raises(moiety.Error, match=r"node 200 does not exist; the "
                       r"machine has node"):
        moiety.HostArena(policy="explicit", nodes=(200,))
