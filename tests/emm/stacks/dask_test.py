# SPDX-License-Identifier: Apache-2.0
"""moiety.dask, on a cluster of four processes."""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time

import dask
import dask_tasks as tasks
import psutil
import pytest
from distributed import Client, LocalCluster
from distributed.protocol import deserialize_bytes, serialize_bytes

import moiety
from moiety.dask import MoietySetup, memory
from holding import Hold
from support import run_program

MIB = 1 << 20
WORKER_COUNT = 4


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where Dask has its files; the scheduler takes no other word for it."""
    path = tmp_path_factory.mktemp("dask")
    with dask.config.set({"temporary-directory": str(path)}):
        yield path


@pytest.fixture(scope="module")
def cluster(folder):
    with LocalCluster(n_workers=WORKER_COUNT, threads_per_worker=1,
                      memory_limit=0, dashboard_address=":0") as made:
        yield made


@pytest.fixture(scope="module")
def all_tests_client(cluster):
    with Client(cluster) as made:
        yield made


@pytest.fixture
def client(all_tests_client):
    """Its workers have no setup, before and after."""
    yield all_tests_client
    with contextlib.suppress(ValueError):
        all_tests_client.unregister_worker_plugin("moiety")


def workers_of(client):
    return list(client.scheduler_info(n_workers=-1)["workers"])


def metrics_of(client):
    info = client.scheduler_info(n_workers=-1)["workers"]
    return {address: about["metrics"] for address, about in info.items()}


def wait_until(holds):
    while not holds():
        time.sleep(0.05)


def on(client, worker, function, *arguments):
    """The task's future, on that worker."""
    return client.submit(function, *arguments, workers=[worker], pure=False)


def takes_setup(client, *arguments):
    try:
        client.register_plugin(MoietySetup(*arguments))
    except moiety.Error:
        return False
    return True


def refusal_of(client, *arguments, **options):
    with pytest.raises(Exception) as caught:
        client.register_plugin(MoietySetup(*arguments, **options))
    return caught.value


def test_each_worker_has_the_limit(client):
    client.register_plugin(MoietySetup("64MiB"))
    assert list(client.run(tasks.limit).values()) == [64 * MIB] * WORKER_COUNT
    refused = client.submit(tasks.make_filled, 65 * MIB, 0)
    error = refused.exception()
    assert isinstance(error, moiety.OutOfMemoryError)


def test_the_scheduler_is_told_the_numbers(client):
    client.register_plugin(MoietySetup("64MiB"))
    worker = workers_of(client)[0]
    held = on(client, worker, tasks.make_filled, 5 * MIB, 1)
    held.result()

    def is_told():
        about = metrics_of(client)[worker]
        told = about.get("moiety", {})
        return (told.get("limit_bytes") == 64 * MIB
                and told["used_bytes"] >= 5 * MIB
                and told["reserved_bytes"] >= told["used_bytes"]
                # The dashboard's table has plain numbers.
                and about["moiety_used_bytes"] == told["used_bytes"])

    wait_until(is_told)


def test_blocks_travel_between_workers(client):
    client.register_plugin(MoietySetup("64MiB"))
    first, second = workers_of(client)[:2]
    pids = client.run(os.getpid)
    data = bytes(range(256)) * 4096
    block = on(client, first, tasks.make, data)
    assert on(client, first, tasks.take, block).result() == (
        pids[first], True, data)
    assert on(client, second, tasks.take, block).result() == (
        pids[second], True, data)


def test_blocks_without_bytes_and_within_objects_travel(client):
    client.register_plugin(MoietySetup("64MiB"))
    first, second = workers_of(client)[:2]
    empty = on(client, first, tasks.make, b"")
    assert on(client, second, tasks.take, empty).result()[2] == b""
    block = on(client, first, tasks.make, b"within")
    held = on(client, first, tasks.Holder, block)
    assert on(client, second, tasks.take_held, held).result()[1:] == (
        True, b"within")


def test_pinned_blocks_travel(client):
    first, second = workers_of(client)[:2]
    block = on(client, first, tasks.make_host, b"pinned")
    assert on(client, second, tasks.take_host, block).result() == (
        client.run(os.getpid)[second], b"pinned")


def test_a_block_comes_to_the_client(client):
    client.register_plugin(MoietySetup("64MiB"))
    block = client.submit(tasks.make, b"to the client").result()
    assert tasks.take(block) == (os.getpid(), True, b"to the client")


def test_memory_goes_with_the_futures(client):
    # The pools of earlier tests end with their last blocks.
    wait_until(lambda: not any(client.run(tasks.taken).values()))
    client.register_plugin(MoietySetup("64MiB"))
    first, second = workers_of(client)[:2]
    block = on(client, first, tasks.make_filled, 3 * MIB, 1)
    on(client, second, tasks.sizes, block).result()
    assert client.run(tasks.taken)[first] >= 3 * MIB
    # Dask may keep either copy, or both.
    assert max(client.run(tasks.used).values()) >= 3 * MIB
    del block
    wait_until(lambda: not any(client.run(tasks.used).values()))
    client.unregister_worker_plugin("moiety")
    wait_until(lambda: not any(client.run(tasks.taken).values()))


def test_a_task_is_told_that_there_is_no_room_for_what_came(client):
    client.register_plugin(MoietySetup("32MiB"))
    first, second = workers_of(client)[:2]
    mine = on(client, first, tasks.make_filled, 20 * MIB, 1)
    other = on(client, second, tasks.make_filled, 20 * MIB, 2)
    error = on(client, first, tasks.sizes, mine, other).exception(timeout=60)
    assert isinstance(error, moiety.OutOfMemoryError)
    assert "of a limit of 32 MiB" in str(error)
    # It has its bytes still.
    del mine
    wait_until(lambda: not client.run(tasks.used)[first])
    assert on(client, first, tasks.sizes, other).result() == [20 * MIB]


def test_a_handle_is_opened_by_another_worker_without_a_copy(client):
    client.register_plugin(MoietySetup("64MiB", exportable=True))
    first, second = workers_of(client)[:2]
    handle = on(client, first, tasks.share, b"shared")
    assert on(client, second, tasks.visit, handle).result() == (
        client.run(os.getpid)[second], b"shared", 0)
    client.run(tasks.drop, workers=[first])


def test_a_second_setup_changes_the_limit_of_what_is_in_use(client):
    client.register_plugin(MoietySetup("64MiB"))
    worker = workers_of(client)[0]
    block = on(client, worker, tasks.make, b"stays")
    block.result()
    client.register_plugin(MoietySetup("32MiB"))
    assert set(client.run(tasks.limit).values()) == {32 * MIB}
    assert client.run(tasks.used)[worker]
    assert on(client, worker, tasks.take, block).result()[1:] == (True,
                                                                  b"stays")


def test_a_limit_that_memory_in_use_is_in_the_way_of(client):
    client.register_plugin(MoietySetup("2MiB"))
    block = client.submit(tasks.make, b"in use")
    block.result()
    error = refusal_of(client, "64MiB")
    assert isinstance(error, moiety.Error) and error.status == "E_TOO_LARGE"
    del block
    # The worker drops it later, and has no pool to be asked meanwhile.
    wait_until(lambda: takes_setup(client, "64MiB"))


def test_blocks_are_spilled_to_disk_as_bytes():
    block = moiety.pools()[0].alloc(6)
    tasks.write(block.address, b"spills")
    back = deserialize_bytes(serialize_bytes(block))
    assert back.address != block.address
    assert tasks.read(back.address, 6) == b"spills"


def test_a_block_is_read_when_its_work_is_over(driver):
    block, stream = moiety.pools()[0].alloc(6), driver.stream()
    hold = Hold(driver.library, stream)
    driver.call("cuMemsetD8Async", ctypes.c_uint64(block.address), 7,
                ctypes.c_size_t(6), stream)
    releases = threading.Timer(0.2, hold.release)
    releases.start()
    back = deserialize_bytes(serialize_bytes(block))
    releases.join()
    assert tasks.read(back.address, 6) == b"\7" * 6


def test_a_worker_that_is_killed_is_set_up_again(client):
    client.register_plugin(MoietySetup("64MiB", libraries=["numpy"]))
    pids = client.run(os.getpid)
    victim = workers_of(client)[0]
    blocks = [on(client, worker, tasks.make, b"made again")
              for worker in pids if worker != victim]
    lost = client.submit(tasks.make, b"made again", workers=[victim],
                         allow_other_workers=True, pure=False)
    lost.result()
    os.kill(pids[victim], signal.SIGKILL)

    def is_back():
        # One that ends does not answer.
        there = client.run(tasks.pid_and_limit, on_error="ignore")
        return (len(there) == WORKER_COUNT and pids[victim] not in
                [pid for pid, limit in there.values() if limit == 64 * MIB]
                and {limit for _, limit in there.values()} == {64 * MIB})

    wait_until(is_back)
    for block in (*blocks, lost):
        assert client.submit(tasks.take, block).result()[2] == b"made again"
    handlers = [on(client, worker, tasks.numpy_handler).result()
                for worker in workers_of(client)]
    assert handlers == ["moiety:device0"] * WORKER_COUNT


def test_numpy_and_cuda_core_are_switched_in_tasks_and_back(client):
    client.register_plugin(MoietySetup(libraries=["numpy", "cuda.core"]))
    assert client.submit(tasks.numpy_handler).result() == "moiety:device0"
    assert client.submit(tasks.numpy_handler_of_coroutine).result() == (
        "moiety:device0")
    assert client.submit(tasks.core_is_ours).result()
    client.unregister_worker_plugin("moiety")
    assert client.submit(tasks.numpy_handler, pure=False).result() == (
        "default_allocator")
    assert not client.submit(tasks.core_is_ours, pure=False).result()


def test_cupy_and_rmm_are_switched_and_back(client):
    client.run(tasks.install_fakes, "cupy", "rmm")
    try:
        client.register_plugin(MoietySetup(libraries=["cupy", "rmm"]))
        assert set(client.run(tasks.allocators).values()) == {(True, True)}
        client.unregister_worker_plugin("moiety")
        assert set(client.run(tasks.allocators).values()) == {
            (None, "builtins")}
    finally:
        client.run(tasks.remove_fakes)


def test_a_library_that_is_missing_undoes_the_setup(client):
    client.run(tasks.install_fakes, "cupy")
    try:
        error = refusal_of(client, libraries=["cupy", "rmm"])
        assert isinstance(error, ImportError)
        assert "moiety.rmm needs RMM 26.06" in str(error)
        client.run(tasks.install_fakes, "rmm")
        assert set(client.run(tasks.allocators).values()) == {
            (None, "builtins")}
    finally:
        client.run(tasks.remove_fakes)


def test_each_worker_is_a_tenant(client):
    client.register_plugin(MoietySetup("64MiB", budget="8MiB"))
    names = {on(client, worker, tasks.tenant).result()
             for worker in workers_of(client)}
    assert {budget for _, budget in names} == {8 * MIB}
    assert {name for name, _ in names} == set(map(str, range(WORKER_COUNT)))
    error = client.submit(tasks.make_filled, 9 * MIB, 0).exception()
    assert error.status == "E_BUDGET"
    first, second = workers_of(client)[:2]
    block = on(client, first, tasks.make, b"of a tenant")
    assert on(client, second, tasks.take, block).result()[2] == b"of a tenant"


@pytest.mark.parametrize("arguments, options, kind, text", [
    (["100000GiB"], {}, ValueError, "and device 0 of this worker has"),
    (["1MiB"], {}, moiety.Error, "accepted are 0 and"),
    (["8GB"], {}, ValueError, "accepted are digits, with K, M, G"),
    ([-1], {}, OverflowError, "accepted are whole numbers"),
    ([0], {}, ValueError, "accepted are bytes above 0"),
    ([], {"libraries": ["jax"]}, ValueError, "libraries has 'jax'; accepted "
                                             "are cuda.core, cupy, numba"),
    ([], {"libraries": "cupy"}, ValueError, "accepted is a list"),
    ([], {"libraries": ["numba"], "budget": 8 * MIB}, ValueError,
     "numba takes memory of no tenant"),
    ([], {"devices": [0]}, TypeError, "no option of MoietySetup"),
    ([], {"color": "red"}, TypeError, "'color'"),
])
def test_what_is_wrong_is_told_to_who_registers(client, arguments, options,
                                                kind, text):
    error = refusal_of(client, *arguments, **options)
    assert type(error) is kind and text in str(error)


def test_outside_of_a_task_there_is_no_memory(client):
    with pytest.raises(ValueError):
        memory()
    error = client.submit(memory).exception()
    assert isinstance(error, RuntimeError)
    assert "has no MoietySetup" in str(error)


def test_arrays_of_numba_travel_from_pool_to_pool(client):
    # numba keeps its manager: the last test that counts on another.
    client.register_plugin(MoietySetup("64MiB", libraries=["numba"]))
    first, second = workers_of(client)[:2]
    array = on(client, first, tasks.numba_array, 10000)
    assert on(client, second, tasks.numba_sum, array).result() == (
        client.run(os.getpid)[second], 49995000.0, True)
    client.register_plugin(MoietySetup("32MiB", libraries=["numba"]))
    assert client.run(tasks.limit)[second] == 32 * MIB
    assert on(client, second, tasks.numba_sum, array).result()[2]
    del array
    error = refusal_of(client, "32MiB", exportable=True)
    assert "numba has a context already" in str(error)


def start_worker(cluster, folder, *arguments):
    """The command, with an end of its output."""
    return subprocess.Popen(
        [sys.executable, "-B", "-m", "dask", "worker",
         cluster.scheduler_address, "--no-nanny", "--no-dashboard",
         "--nthreads=1", "--local-directory", str(folder), "--name=preloaded",
         "--preload=moiety.dask", *arguments],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def test_a_worker_preloads_it(client, cluster, folder):
    process = start_worker(cluster, folder, "--moiety-limit", "16MiB",
                           "--moiety-libraries", "numpy,cuda.core")
    try:
        client.wait_for_workers(WORKER_COUNT + 1)
        info = client.scheduler_info(n_workers=-1)["workers"]
        address = next(address for address, about in info.items()
                       if about["name"] == "preloaded")
        assert client.run(tasks.limit, workers=[address]) == {
            address: 16 * MIB}
        assert on(client, address, tasks.core_is_ours).result()
    finally:
        process.terminate()
        process.communicate(timeout=60)
    wait_until(lambda: len(workers_of(client)) == WORKER_COUNT)


@pytest.mark.parametrize("limit, text", [
    ("8GB", "limit is '8GB'; accepted are digits"),
    ("100000GiB", "and device 0 of this worker has"),
])
def test_a_worker_without_its_limit_does_not_run(cluster, folder, limit,
                                                 text):
    process = start_worker(cluster, folder, "--moiety-limit", limit)
    output, _ = process.communicate(timeout=60)
    assert process.returncode != 0
    assert text in output


@contextlib.contextmanager
def workers_in_this_process():
    with LocalCluster(n_workers=2, threads_per_worker=1, processes=False,
                      memory_limit=0, dashboard_address=":0") as cluster:
        with Client(cluster) as client:
            yield client


def test_workers_of_one_process_are_tenants_of_one_pool(folder):
    before = moiety.pools()
    with workers_in_this_process() as client:
        client.register_plugin(MoietySetup("64MiB", budget="8MiB"))
        pools = moiety.pools()
        assert pools is not before and tasks.limit() == 64 * MIB
        blocks = [on(client, worker, tasks.make_filled, 5 * MIB, 1)
                  for worker in workers_of(client)]
        tenants = {block.result().tenant.name for block in blocks}
        assert tenants == {"0", "1"}
        assert pools.used_bytes >= 10 * MIB
        client.register_plugin(MoietySetup("32MiB", budget="6MiB"))
        assert moiety.pools() is pools and tasks.limit() == 32 * MIB
        error = refusal_of(client, "64MiB", exportable=True)
        assert "another worker of this process" in str(error)
        del blocks
    assert moiety.pools() is before


def test_one_allocator_cannot_be_the_tenant_of_each_worker(folder):
    tasks.install_fakes("cupy")
    try:
        with workers_in_this_process() as client:
            error = refusal_of(client, budget="8MiB", libraries=["cupy"])
            assert "cupy has one allocator for all workers" in str(error)
            client.register_plugin(MoietySetup(libraries=["cupy"]))
    finally:
        tasks.remove_fakes()


def test_without_distributed_it_says_what_to_install():
    program = run_program("""
        import sys
        sys.modules["distributed"] = None
        import moiety.dask
        """)
    assert program.returncode == 1
    assert 'pip install "distributed>=2024.8"' in program.stderr


def children():
    return [child for child in psutil.Process().children(recursive=True)
            if "resource_tracker" not in " ".join(child.cmdline())]


def test_nothing_is_left(all_tests_client, cluster, folder):
    all_tests_client.close()
    cluster.close()
    wait_until(lambda: not children())
    assert not [name for name in os.listdir("/dev/shm") if "moiety" in name]
    # Dask's own locks aside.
    assert not [path for path in folder.rglob("*")
                if not path.is_dir() and path.suffix != ".lock"]
