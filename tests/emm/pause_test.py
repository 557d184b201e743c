# SPDX-License-Identifier: Apache-2.0
"""Tenants that are paused: what they keep, what others get, what is refused."""

import ctypes
import threading
import time

import moiety
import pytest
from support import MIB, refusal, run_program, run_threads

DATA = bytes(range(256)) * (MIB // 256)


@pytest.fixture(name="pool")
def mapped_pool():
    with moiety.Pool(memory="mapped", limit=16 * MIB,
                     wait_ms=60000) as pool:
        yield pool


@pytest.fixture(name="tenant")
def tenant_that_can_be_paused(pool):
    return pool.tenant("model", pausable=True)


class Memory:
    """What is in blocks, by way of the driver."""

    def __init__(self, driver):
        self.driver = driver

    def write(self, block, data):
        self.driver.call("cuMemcpyHtoD_v2", ctypes.c_uint64(block.address),
                         data, ctypes.c_size_t(len(data)))

    def read(self, block):
        data = ctypes.create_string_buffer(block.nbytes)
        self.driver.call("cuMemcpyDtoH_v2", data,
                         ctypes.c_uint64(block.address),
                         ctypes.c_size_t(block.nbytes))
        return data.raw


@pytest.fixture(name="memory")
def memory_of_the_device(driver):
    return Memory(driver)


def test_contents_are_there_again(pool, tenant, memory):
    block = tenant.alloc(MIB)
    memory.write(block, DATA)
    address = block.address
    for _ in range(20):
        tenant.pause(keep_contents=True)
        tenant.resume()
    assert block.address == address and memory.read(block) == DATA


def test_without_contents_the_memory_can_be_used(tenant, memory):
    block = tenant.alloc(MIB)
    tenant.pause()
    tenant.resume()
    memory.write(block, DATA)
    assert memory.read(block) == DATA


def test_what_is_paused_is_counted(pool, tenant):
    block = tenant.alloc(4 * MIB)
    assert (tenant.is_paused, pool.stats().mapped_paused_bytes) == (False, 0)
    reserved = pool.stats().reserved_bytes_current
    tenant.pause()
    stats = pool.stats()
    assert tenant.is_paused
    assert stats.mapped_paused_bytes == reserved >= 4 * MIB
    assert stats.reserved_bytes_current == 0
    assert tenant.stats().live_bytes == 4 * MIB and block.is_live
    tenant.resume()
    assert (tenant.is_paused, pool.stats().mapped_paused_bytes) == (False, 0)


def test_others_have_the_memory_meanwhile(memory):
    # The refusal waits as long as the pool may.
    with moiety.Pool(memory="mapped", limit=16 * MIB,
                     wait_ms=2000) as pool:
        tenant = pool.tenant("model", pausable=True)
        block = tenant.alloc(12 * MIB)
        memory.write(block, DATA)
        tenant.pause(keep_contents=True)
        other = pool.alloc(12 * MIB)
        error = refusal(tenant.resume)
        assert isinstance(error, MemoryError)
        assert (error.status, error.report) == ("E_NO_DEVICE_MEMORY", None)
        assert tenant.is_paused
        other.free(moiety.DONE)
        tenant.resume()
        assert memory.read(block)[:MIB] == DATA


def test_what_is_paused_takes_frees_alone(tenant):
    blocks = [tenant.alloc(MIB) for _ in range(2)]
    tenant.pause()
    for take in (tenant.alloc, tenant.alloc_raw):
        error = refusal(take, 512)
        assert error.status == "E_PAUSED" and "paused" in str(error)
    blocks.pop().free()
    tenant.resume()
    assert tenant.alloc(512).is_live


@pytest.mark.parametrize("is_resumed", [True, False])
def test_the_end_of_one_that_was_paused(pool, is_resumed):
    tenant = pool.tenant(pausable=True)
    block = tenant.alloc(MIB)
    tenant.pause(keep_contents=True)
    assert refusal(tenant.close).status == "E_IN_USE" and tenant.is_open
    block.free()
    if is_resumed:
        tenant.resume()
    tenant.close()
    assert not tenant.is_open
    assert pool.stats().mapped_paused_bytes == 0
    for use in (tenant.pause, tenant.resume, lambda: tenant.is_paused):
        with pytest.raises(ValueError, match="closed"):
            use()


def test_pools_and_programs_end_while_one_is_paused():
    pool = moiety.Pool(memory="mapped")
    tenant = pool.tenant(pausable=True)
    block = tenant.alloc(MIB)
    tenant.pause()
    assert pool.close() == 1 and not block.is_live
    ended = run_program("""
        import moiety
        tenant = moiety.Pool(memory="mapped").tenant(pausable=True)
        block = tenant.alloc(1 << 20)
        tenant.pause(True)
    """)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


# What is refused.

def test_tenants_that_were_not_made_for_it(pool):
    tenant = pool.tenant()
    for call in (tenant.pause, tenant.resume):
        assert refusal(call).status == "E_UNSUPPORTED"
    assert not tenant.is_paused


@pytest.mark.parametrize("options", [
    {"memory": "driver"}, {"memory": "mapped", "checked": True},
    {"memory": "auto", "pass_through": True}])
def test_pools_that_have_none(options):
    with moiety.Pool(**options) as pool:
        error = refusal(lambda: pool.tenant(pausable=True))
        assert error.status == "E_UNSUPPORTED"


def test_arenas_have_none(arena):
    with pytest.raises(TypeError, match="pausable"):
        arena.tenant(pausable=True)
    with arena.tenant() as tenant:
        assert refusal(tenant.pause).status == "E_UNSUPPORTED"


def test_each_comes_after_the_other(tenant):
    assert refusal(tenant.resume).status == "E_INVALID"
    tenant.pause()
    assert refusal(tenant.pause).status == "E_PAUSED"
    tenant.resume()
    assert refusal(tenant.resume).status == "E_INVALID"


def test_memory_that_is_held_stays(pool, tenant, memory):
    block = tenant.alloc(MIB)
    memory.write(block, DATA)
    held = pool.hold(block.address)
    assert refusal(tenant.pause, True).status == "E_IN_USE"
    assert not tenant.is_paused and memory.read(block) == DATA
    held.release()
    tenant.pause(True)
    tenant.resume()
    assert memory.read(block) == DATA


@pytest.mark.parametrize("call, error", [
    (lambda tenant: tenant.pause(True, True), TypeError),
    (lambda tenant: tenant.pause(contents=True), TypeError),
    (lambda tenant: tenant.resume(True), TypeError),
    (lambda tenant: setattr(tenant, "is_paused", True), AttributeError),
    (lambda tenant: tenant.pool.tenant("", 0, True), TypeError),
])
def test_arguments_that_are_none(tenant, call, error):
    with pytest.raises(error):
        call(tenant)
    assert not tenant.is_paused


@pytest.mark.skipif(not moiety.probe()["is_standin"], reason="plans faults")
@pytest.mark.parametrize("fault, status, is_paused", [
    ("cuMemHostAlloc", "E_NO_PINNED_MEMORY", False),
    ("cuMemUnmap", "E_DRIVER", False),
])
def test_what_the_driver_refuses(fault, status, is_paused):
    code = 2 if fault == "cuMemHostAlloc" else 999
    ended = run_program("""
        import moiety
        tenant = moiety.Pool(memory="mapped").tenant(pausable=True)
        block = tenant.alloc(1 << 20)
        try:
            tenant.pause(keep_contents=True)
        except moiety.Error as error:
            print(error.status, tenant.is_paused, tenant.alloc(512).is_live)
    """, MOIETY_STANDIN_FAULTS=f"{fault}:every=1:code={code}")
    assert (ended.stdout, ended.stderr) == (f"{status} {is_paused} True\n", "")


def test_child_of_a_fork_is_told():
    ended = run_program("""
        import moiety, os
        tenant = moiety.Pool(memory="mapped").tenant(pausable=True)
        block = tenant.alloc(5000)
        child = os.fork()
        if child == 0:
            for call in (tenant.pause, tenant.resume, tenant.close,
                         lambda: tenant.is_paused,
                         lambda: tenant.pool.tenant(pausable=True)):
                try:
                    call()
                except moiety.Error as error:
                    print(error.status, flush=True)
            del block, tenant
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        tenant.pause()
        tenant.resume()
    """)
    assert (ended.returncode, ended.stdout, ended.stderr) == (
        0, "E_FORKED\n" * 5, "")


# Threads.

@pytest.mark.skipif(not moiety.probe()["is_standin"],
                    reason="holds back a stream")
def test_a_pause_waits_for_work_without_the_gil(tenant, driver):
    stream = driver.stream()
    block = tenant.alloc(MIB)
    errors = []
    thread = threading.Thread(target=tenant.pause)
    with driver.held(stream):
        thread.start()
        while not errors:
            time.sleep(0.001)
            try:  # by what only the thread that pauses can be in the way of
                tenant.pool.alloc(512).free()
                tenant.close()
            except moiety.Error as error:
                if "another thread" in str(error):
                    errors.append(error)
        assert errors[0].status == "E_IN_USE" and thread.is_alive()
        assert not tenant.is_paused
    thread.join()
    assert tenant.is_paused and block.is_live
    tenant.resume()


@pytest.mark.skipif(not moiety.probe()["is_standin"],
                    reason="holds back a stream")
def test_work_that_is_not_over_is_in_the_way(driver):
    stream = driver.stream()
    with moiety.Pool(memory="mapped", wait_ms=1) as pool:
        tenant = pool.tenant(pausable=True)
        block = tenant.alloc(MIB)
        with driver.held(stream):
            assert refusal(tenant.pause).status == "E_TIMEOUT"
        assert not tenant.is_paused and block.is_live


def test_threads_that_do_all_at_a_time(pool, tenant):
    """One of those that pause is let in, and each of the others is told."""
    done = []
    failures = []

    def work(index):
        for _ in range(50):
            try:
                if index % 4 == 0:
                    tenant.pause(index % 8 == 0)
                elif index % 4 == 1:
                    tenant.resume()
                else:
                    tenant.alloc(MIB // 4).free()
                done.append(index % 4)
            except moiety.Error as error:
                if error.status not in ("E_PAUSED", "E_IN_USE", "E_INVALID"):
                    failures.append(error)

    run_threads(8, work)
    # Which allocations met a tenant that is not paused, the threads decide.
    assert not failures and 0 in done
    if tenant.is_paused:
        tenant.resume()
    tenant.alloc(MIB // 4).free()
    tenant.close()
    assert pool.stats().allocation_current == 0
