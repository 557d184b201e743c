# SPDX-License-Identifier: Apache-2.0
"""Tenants of pools and arenas."""

import sys
import threading
import time

import moiety
import pytest
from support import (MIB, close_while_others_are_inside, refusal,
                     run_program, run_threads)

KIB = 1 << 10


@pytest.fixture(name="space", params=["pool", "arena"])
def either_of_both(request):
    return request.getfixturevalue(request.param)


def test_the_budget_is_exact(space):
    tenant = space.tenant("batch jobs", 4 * MIB)
    blocks = [tenant.alloc(MIB) for _ in range(4)]
    error = refusal(tenant.alloc, 1)
    assert isinstance(error, MemoryError)
    assert (error.status, error.report) == ("E_BUDGET", None)
    others = space.alloc(MIB)  # the pool has more
    assert others.tenant is None and blocks[0].tenant is tenant
    blocks.pop()
    assert tenant.alloc(MIB).is_live


def test_blocks_are_those_of_the_pool(space):
    tenant = space.tenant()
    block = tenant.alloc(5000, moiety.LEGACY)
    assert type(block) is type(space.alloc(1))
    assert space.owns(block.address) and block.stream == moiety.LEGACY
    assert block.nbytes == 5000 and tenant.pool is space
    with block:
        assert tenant.stats().live_bytes == space.usable_size(block.address)
    assert tenant.stats().live_bytes == 0


def test_memory_of_an_arena_can_be_used(arena):
    with arena.tenant("host", MIB).alloc(5000) as block:
        assert block.device_address and block.arena is arena
        assert block.__array_interface__["shape"] == (5000,)


def test_stats(pool):
    tenant = pool.tenant(name="né", budget=64 * KIB)
    block = tenant.alloc(4096)
    refusal(tenant.alloc, 64 * KIB)
    assert tenant.stats().as_dict() == {
        "name": "né", "budget_bytes": 64 * KIB, "live_bytes": 4096,
        "peak_bytes": 4096, "allocation_count": 1, "refusal_count": 1}
    assert (tenant.name, tenant.is_open) == ("né", True)
    block.free()


def test_the_budget_can_be_changed(pool):
    tenant = pool.tenant(budget=64 * KIB)
    kept = tenant.alloc(32 * KIB)
    tenant.budget = 16 * KIB
    assert tenant.budget == 16 * KIB and kept.is_live
    assert refusal(tenant.alloc, 1).status == "E_BUDGET"
    tenant.budget = 0
    assert tenant.alloc(MIB).is_live


def test_addresses_without_an_owner(space):
    tenant = space.tenant(budget=MIB)
    address = tenant.alloc_raw(MIB)
    assert refusal(tenant.alloc_raw, 1).status == "E_BUDGET"
    assert refusal(tenant.close).status == "E_IN_USE"
    space.free_raw(address)
    tenant.close()
    assert space.tenant().alloc_raw(0) == 0


def test_close(pool):
    tenant = pool.tenant("closing")
    block = tenant.alloc(4096)
    assert refusal(tenant.close).status == "E_IN_USE" and tenant.is_open
    block.free()
    tenant.close()
    tenant.close()
    assert not tenant.is_open
    for use in (lambda: tenant.alloc(1), tenant.stats, lambda: tenant.name,
                lambda: tenant.budget,
                lambda: setattr(tenant, "budget", 1)):
        with pytest.raises(ValueError, match="closed"):
            use()


def test_with_closes(pool):
    with pool.tenant() as tenant:
        tenant.alloc(4096).free()
    assert not tenant.is_open
    with pytest.raises(moiety.Error) as raised:
        with pool.tenant() as tenant:
            block = tenant.alloc(4096)
    assert raised.value.status == "E_IN_USE"
    block.free()


def test_a_tenant_goes_with_its_last_block(pool):
    """There can be 4096 of them."""
    for _ in range(5000):
        block = pool.tenant("dropped").alloc(512)
    assert block.tenant.stats().live_bytes == 512
    kept = []
    with pytest.raises(moiety.Error) as raised:
        while True:
            kept.append(pool.tenant())
    assert raised.value.status == "E_NO_ROOM" and len(kept) == 4095


def test_it_ends_with_its_pool():
    pool = moiety.Pool()
    tenant = pool.tenant()
    block = tenant.alloc(4096)
    assert pool.close() == 1
    assert not tenant.is_open and not block.is_live
    with pytest.raises(ValueError, match="closed"):
        tenant.alloc(4096)
    tenant.close()
    with pytest.raises(ValueError, match="closed"):
        pool.tenant()


@pytest.mark.parametrize("call, error", [
    (lambda pool: pool.tenant(5), TypeError),
    (lambda pool: pool.tenant("a\0b"), ValueError),
    (lambda pool: pool.tenant("", -1), OverflowError),
    (lambda pool: pool.tenant("", 1 << 64), OverflowError),
    (lambda pool: pool.tenant("", 1.5), TypeError),
    (lambda pool: pool.tenant(limit=1), TypeError),
    (lambda pool: pool.tenant().alloc(), TypeError),
    (lambda pool: pool.tenant().alloc("1"), TypeError),
    (lambda pool: pool.tenant().alloc(-1), OverflowError),
    (lambda pool: pool.tenant().alloc(1, object()), TypeError),
    (lambda pool: pool.tenant().alloc_raw(1, 2, 3), TypeError),
    (lambda pool: setattr(pool.tenant(), "budget", 1.5), TypeError),
    (lambda pool: delattr(pool.tenant(), "budget"), AttributeError),
    (lambda pool: type(pool.tenant())(), TypeError),
])
def test_arguments_that_are_none(pool, call, error):
    with pytest.raises(error):
        call(pool)


@pytest.mark.parametrize("call, status", [
    (lambda pool: pool.tenant("n" * 32), "E_INVALID"),
    (lambda pool: pool.tenant("", 1 << 62), "E_INVALID"),
    (lambda pool: pool.tenant().alloc(1 << 60), "E_TOO_LARGE"),
    (lambda pool: setattr(pool.tenant(), "budget", 1 << 62), "E_INVALID"),
])
def test_what_the_library_refuses(pool, call, status):
    assert refusal(call, pool).status == status


def test_the_pool_can_be_out_of_memory_too():
    with moiety.Pool(limit=4 * MIB, wait_ms=1) as pool:
        error = refusal(pool.tenant().alloc, 5 * MIB)
        assert error.status in ("E_NO_DEVICE_MEMORY", "E_TOO_LARGE")
        kept = pool.tenant().alloc(3 * MIB)
        error = refusal(pool.tenant("second").alloc, 3 * MIB)
        assert error.status == "E_NO_DEVICE_MEMORY"
        assert error.report["live_bytes"] == kept.nbytes


def test_threads_never_have_more_than_the_budget(pool):
    tenant = pool.tenant("many", 8 * MIB)
    failures = []

    def work(_):
        for _ in range(300):
            try:
                block = tenant.alloc(MIB)
                if tenant.stats().live_bytes > 8 * MIB:
                    failures.append("too much")
                block.free(moiety.DONE)
            except moiety.OutOfMemoryError as error:
                if error.status != "E_BUDGET":
                    failures.append(error.status)

    run_threads(16, work)
    assert not failures
    tenant.close()


def test_close_while_others_are_inside(pool):
    for _ in range(20):
        tenant = pool.tenant()
        close_while_others_are_inside(tenant)


@pytest.mark.skipif(not moiety.probe()["is_standin"],
                    reason="holds back a stream")
def test_close_waits_for_no_allocation(driver):
    """One that is under way, in another thread, is in its way."""
    stream = driver.stream()
    with moiety.Pool(limit=4 * MIB, wait_ms=60000) as pool:
        tenant = pool.tenant("waiting")
        thread = threading.Thread(target=tenant.alloc, args=(3 * MIB,))
        with driver.held(stream):
            pool.alloc(3 * MIB, stream.value).free()
            thread.start()
            while thread.is_alive() and tenant.stats().live_bytes == 0:
                time.sleep(0.001)
            error = refusal(tenant.close)
        thread.join()
        assert error.status == "E_IN_USE" and "another thread" in str(error)
        tenant.close()


def test_child_of_a_fork_is_told_and_exit_is_silent():
    ended = run_program("""
import moiety, os
tenant = moiety.Pool().tenant("forked")
block = tenant.alloc(5000)
child = os.fork()
if child == 0:
    for call in (lambda: tenant.alloc(1), tenant.stats, tenant.close,
                 tenant.pool.tenant):
        try:
            call()
        except moiety.Error as error:
            print(error.status, flush=True)
    del block, tenant
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
assert tenant.alloc(5000).is_live
""")
    assert (ended.returncode, ended.stdout, ended.stderr) == (
        0, "E_FORKED\n" * 4, "")


# --- with-blocks that an error leaves ---

def notes_of(error, warned):
    """What was attached; before Python 3.11 a warning says it."""
    return "".join(getattr(error, "__notes__", [])
                   or [str(one.message) for one in warned])


def test_the_programs_error_leaves_a_tenant(space, recwarn):
    error = KeyError("the program's own")
    with pytest.raises(KeyError) as raised:
        with space.tenant("jobs") as jobs:
            block = jobs.alloc(1000)
            raise error
    assert raised.value is error and jobs.is_open
    assert "tenant 'jobs' still has 1024 bytes" in notes_of(error, recwarn)
    del block
    jobs.close()


@pytest.mark.parametrize("make", [moiety.Pool, moiety.HostArena, moiety.Pools])
def test_the_programs_error_leaves_what_is_in_use(make, recwarn):
    error = KeyError("the program's own")
    with pytest.raises(KeyError) as raised:
        with make() as made:
            space = made[0] if make is moiety.Pools else made
            capsule = moiety._native._capsule_of(space)
            raise error
    assert raised.value is error and space.is_open
    assert "was not closed" in notes_of(error, recwarn)
    del capsule
    made.close()


def test_a_refused_end_is_an_error_without_another(space):
    jobs = space.tenant("jobs")
    block = jobs.alloc(1000)
    with pytest.raises(moiety.Error, match="still has") as raised:
        with jobs:
            pass
    assert raised.value.status == "E_IN_USE"
    del block
    jobs.close()


def test_a_note_that_is_refused_replaces_nothing(pool):
    class Deaf(Exception):
        def add_note(self, note):
            raise RuntimeError("no notes")

    seen = []
    before, sys.unraisablehook = sys.unraisablehook, seen.append
    try:
        with pytest.raises(Deaf):
            with pool.tenant("jobs") as jobs:
                block = jobs.alloc(1000)
                raise Deaf
    finally:
        sys.unraisablehook = before
    assert str(seen.pop().exc_value) == "no notes"
    del block
    jobs.close()
