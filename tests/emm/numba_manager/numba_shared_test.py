# SPDX-License-Identifier: Apache-2.0
"""numba on pools that the program has made for other frameworks too. Each test
has numba in a process of its own: it keeps its memory manager."""

import pytest
from support import run_program

BEGIN = """
    import gc
    import numpy as np
    from numba import cuda
    import moiety, moiety.numba
    """


def lines_of(text, **environment):
    ended = run_program(BEGIN + text, NUMBA_CUDA_MEMORY_MANAGER="default",
                        **environment)
    assert not ended.returncode, ended.stderr
    return ended.stdout.splitlines()


def test_arrays_are_memory_of_the_programs_pools():
    assert lines_of("""
    pools = moiety.Pools(limit=64 << 20)
    moiety.numba.enable(pools)
    array = cuda.to_device(np.ones(1 << 20, np.uint8))
    print(pools[0].owns(array.__cuda_array_interface__["data"][0]))
    print(moiety.numba.pool() is pools[0], pools.used_bytes >> 20)
    try:
        cuda.device_array(65 << 20, np.uint8)
    except MemoryError as error:
        print(error.status)
    del array
    print(pools.used_bytes)
    """) == ["True", "True 1", "E_TOO_LARGE", "0"]


def test_a_reset_leaves_the_pool_and_what_is_referred_to():
    assert lines_of("""
    pool = moiety.Pool()
    moiety.numba.enable(pool)
    kept, dropped = cuda.to_device(np.arange(100)), cuda.device_array(100)
    cuda.current_context().reset()
    del dropped
    gc.collect()
    print(pool.is_open, pool.stats().allocation_current)
    print(kept.copy_to_host().sum(), moiety.numba.pool() is pool)
    del kept
    print(pool.used_bytes)
    """) == ["True 1", "4950 True", "0"]


def test_each_device_has_its_pool():
    assert lines_of("""
    pools = moiety.Pools()
    moiety.numba.enable(pools)
    with cuda.gpus[1]:
        array = cuda.device_array(100)
        print(moiety.numba.pool().device)
    print(len(list(pools)))
    """, MOIETY_STANDIN_DEVICES="2") == ["1", "1"]


def test_a_pool_of_another_device_is_refused():
    assert lines_of("""
    moiety.numba.enable(moiety.Pool(0))
    with cuda.gpus[1]:
        try:
            cuda.device_array(100)
        except ValueError as error:
            print(error)
    """, MOIETY_STANDIN_DEVICES="2") == [
        "the pool is of device 0, and memory of device 1 is asked for: name a "
        "moiety.Pools"]


@pytest.mark.parametrize("arguments, text", [
    ("5", "is no moiety.Pool"),
    ("moiety.Pool().tenant('one')", "no Tenant"),
    ("moiety.Pools(), limit=5", "options are for pools of numba's own"),
])
def test_what_is_refused(arguments, text):
    found = lines_of(f"""
    try:
        moiety.numba.enable({arguments})
    except TypeError as error:
        print(error)
    """)
    assert text in found[0]


@pytest.mark.parametrize("is_exportable, found", [
    (False, "E_UNSUPPORTED"), (True, "handle")])
def test_handles_for_other_processes_want_an_exportable_pool(is_exportable,
                                                             found):
    assert lines_of(f"""
    moiety.numba.enable(moiety.Pools(exportable={is_exportable}))
    array = cuda.device_array(100)
    try:
        array.get_ipc_handle()
        print("handle")
    except moiety.Error as error:
        print(error.status)
    """) == [found]
