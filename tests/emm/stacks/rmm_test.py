# SPDX-License-Identifier: Apache-2.0
"""moiety.rmm, with modules of RMM's interface (fake_frameworks.py)."""

import ctypes
import functools
import gc
import subprocess
import sys
import weakref

import fake_frameworks
import pytest

import moiety

rmm = fake_frameworks.install_rmm()

import moiety.rmm  # noqa: E402

MIB = 1 << 20


@pytest.fixture
def resource(pool):
    return moiety.rmm.MemoryResource(pool=pool)


def test_memory_comes_from_the_pool_and_goes_back(pool, resource):
    address = resource.allocate(1000)
    assert pool.owns(address) and pool.used_bytes >= 1000
    resource.deallocate(address, 1000)
    assert not pool.used_bytes


def test_streams_are_those_that_rmm_names(resource, driver):
    stream = driver.stream()
    one = fake_frameworks.RmmStream(stream.value)
    other = fake_frameworks.RmmStream(driver.stream().value)
    with driver.held(stream):
        address = resource.allocate(1000, one)
        resource.deallocate(address, 1000, one)
        elsewhere = resource.allocate(1000, other)
        assert elsewhere != address
        assert resource.allocate(1000, one) == address
    resource.deallocate(elsewhere, 1000, other)
    resource.deallocate(address, 1000, one)


def test_memory_that_goes_while_its_stream_captures(driver, pool, resource):
    stream = driver.stream()
    one = fake_frameworks.RmmStream(stream.value)
    address = resource.allocate(1000, one)
    graph = ctypes.c_void_p()
    driver.call("cuStreamBeginCapture_v2", stream, 2)
    resource.deallocate(address, 1000, one)
    driver.call("cuStreamEndCapture", stream, ctypes.byref(graph))
    assert not pool.used_bytes


def test_what_rmm_calls_is_there_after_the_resource(pool):
    """Its C++ has bare pointers to it, in copies of the resource."""
    made = [moiety.rmm.MemoryResource(pool=pool) for _ in range(2)]
    called = [weakref.ref(function) for resource in made for function in
              (resource._allocate_func, resource._deallocate_func)]
    made.clear()
    gc.collect()
    assert all(one() is not None for one in called)


def test_nothing_of_it_is_python(resource, pool):
    assert type(resource._allocate_func) is type(pool.alloc_raw)
    free = resource._deallocate_func
    assert type(free) is functools.partial and free.args == (pool,)
    assert type(free.func) is type(pool.alloc_raw)


def test_empty_memory(resource):
    assert resource.allocate(0) == 0
    resource.deallocate(0, 0)


def test_out_of_memory_is_a_memory_error_with_the_reason(resource):
    with pytest.raises(MemoryError, match="out_of_memory.*never reserves"):
        resource.allocate(1 << 44)


def test_a_tenant_has_its_budget(pool):
    tenant = pool.tenant("frames", budget=MIB)
    resource = moiety.rmm.MemoryResource(pool=tenant)
    address = resource.allocate(MIB // 2)
    assert tenant.stats().live_bytes >= MIB // 2
    with pytest.raises(MemoryError, match="budget"):
        resource.allocate(MIB)
    resource.deallocate(address, MIB // 2)


def test_memory_of_a_closed_pool_is_given_up():
    pool = moiety.Pool()
    resource = moiety.rmm.MemoryResource(pool=pool)
    address = resource.allocate(1000)
    pool.close()
    resource.deallocate(address, 1000)
    with pytest.raises(RuntimeError, match="closed"):
        resource.allocate(1000)


def test_devices_that_do_not_fit(pool):
    with pytest.raises(ValueError, match="is of device 0"):
        moiety.rmm.MemoryResource(1, pool)
    with pytest.raises(TypeError, match="is no moiety.Pool"):
        moiety.rmm.MemoryResource(pool=5)
    with pytest.raises(TypeError):
        moiety.rmm.MemoryResource("0", pool)


def test_enable_is_for_the_devices_that_are_named():
    made = moiety.rmm.enable(limit=256 * MIB, devices=[0])
    assert rmm.mr.get_per_device_resource(0) is made[0]
    assert made[0].pool is moiety.pools()[0]
    assert made[0].pool.limit == 256 * MIB
    assert list(moiety.rmm.enable()) == [0]
    moiety.pools().set_limit(None)


def test_enable_with_a_pool(pool):
    assert moiety.rmm.enable(pool)[0].pool is pool
    with pytest.raises(TypeError, match="set the limit of the pool"):
        moiety.rmm.enable(pool, limit=5)


@pytest.mark.parametrize("arguments", [(), (1, 2), (1, 2, 3, 4)])
def test_the_free_in_c_wants_three_arguments(pool, arguments):
    with pytest.raises(TypeError, match="takes a Pool, address"):
        moiety._native._free_for_rmm(pool, *arguments)


def test_without_rmm_it_says_what_to_install():
    ended = subprocess.run(
        [sys.executable, "-c", "import moiety.rmm"], capture_output=True,
        text=True, check=False)
    assert ended.returncode == 1
    assert "pip install rmm-cu13" in ended.stderr
