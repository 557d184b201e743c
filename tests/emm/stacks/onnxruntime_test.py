# SPDX-License-Identifier: Apache-2.0
"""moiety.onnxruntime, with a module of ONNX Runtime's interface, which calls the
C functions by their addresses (fake_frameworks.py)."""

import subprocess
import sys
import threading

import fake_frameworks
import pytest

import moiety

onnxruntime = fake_frameworks.install_onnxruntime()

import moiety.onnxruntime  # noqa: E402

MIB = 1 << 20


def session_of(options):
    return onnxruntime.InferenceSession(
        "model.onnx", providers=[("CUDAExecutionProvider", options)])


@pytest.fixture
def options(pool):
    made = moiety.onnxruntime.provider_options(pool)
    yield made
    moiety.onnxruntime.release(made)


@pytest.fixture
def session(options):
    return session_of(options)


def test_memory_comes_from_the_pool_and_goes_back(pool, session):
    block = session.alloc(1000)
    assert pool.owns(block) and pool.used_bytes >= 1000
    session.free(block)
    assert not pool.used_bytes


def test_what_the_options_are(pool, options):
    assert options["device_id"] == "0"
    assert moiety.onnxruntime.provider_options(pool) == options
    assert moiety.onnxruntime.provider_options(
        pool, stream=moiety.ANY, device_id=0) == options


def test_an_allocation_of_a_session_is_ordered_with_all_streams(
        driver, session):
    stream = driver.stream()
    block = session.alloc(1000)
    with driver.held(stream):
        session.free(block)
        other = session.alloc(1000)
        assert other != block
    session.free(other)


def test_on_the_legacy_stream_memory_serves_again_at_once(driver, pool):
    options = moiety.onnxruntime.provider_options(pool, stream=moiety.LEGACY)
    assert options == moiety.onnxruntime.provider_options(pool, stream=0)
    session = session_of(options)
    block = session.alloc(1000)
    with driver.held(driver.stream()):
        session.free(block)
        assert session.alloc(1000) == block
    session.free(block)
    moiety.onnxruntime.release(options)


def test_pools_tenants_and_streams_have_functions_of_their_own(pool, options):
    tenant = pool.tenant("models", budget=MIB)
    others = [moiety.onnxruntime.provider_options(tenant),
              moiety.onnxruntime.provider_options(pool, stream=moiety.LEGACY)]
    assert len({made["gpu_external_alloc"] for made in [options, *others]}) == 3
    for made in others:
        moiety.onnxruntime.release(made)


def test_out_of_memory_is_a_null_and_the_pool_says_why():
    with moiety.Pool(limit=4 * MIB, wait_ms=0) as pool:
        options = moiety.onnxruntime.provider_options(pool)
        session = session_of(options)
        block = session.alloc(3 * MIB)
        with pytest.raises(RuntimeError, match="p != nullptr"):
            session.alloc(3 * MIB)
        assert pool.last_oom()["live_count"] == 1
        session.free(block)
        moiety.onnxruntime.release(options)


def test_a_tenant_has_its_budget(pool):
    with pool.tenant("models", budget=MIB) as tenant:
        options = moiety.onnxruntime.provider_options(tenant)
        session = session_of(options)
        block = session.alloc(MIB // 2)
        assert tenant.stats().live_bytes >= MIB // 2
        with pytest.raises(RuntimeError, match="p != nullptr"):
            session.alloc(MIB)
        with pytest.raises(moiety.Error, match="ONNX Runtime") as raised:
            tenant.close()
        assert raised.value.status == "E_IN_USE"
        session.free(block)
        moiety.onnxruntime.release(options)


def test_what_was_reserved_goes_back_to_the_driver(pool, session):
    block = session.reserve(8 * MIB)
    assert pool.total_bytes
    session.free(block)
    assert not pool.total_bytes


def test_a_free_of_nothing(session):
    session.free(None)


def test_a_pool_is_held_until_the_release():
    own = moiety.Pool()
    options = moiety.onnxruntime.provider_options(own)
    session = session_of(options)
    block = session.alloc(1000)
    with pytest.raises(moiety.Error, match="ONNX Runtime") as raised:
        own.close()
    assert raised.value.status == "E_IN_USE"
    with pytest.raises(moiety.Error, match="blocks: 1; delete its") as raised:
        moiety.onnxruntime.release(options)
    assert raised.value.status == "E_IN_USE"
    session.free(session.alloc(1000))
    session.free(block)
    moiety.onnxruntime.release(options)
    assert own.close() == 0
    with pytest.raises(RuntimeError, match="p != nullptr"):
        session.alloc(1000)
    session.free(None)


def test_a_program_may_drop_a_pool_that_sessions_use():
    options = moiety.onnxruntime.provider_options(moiety.Pool())
    session = session_of(options)
    session.free(session.alloc(1000))
    moiety.onnxruntime.release(options)


def test_options_that_are_void(pool):
    options = moiety.onnxruntime.provider_options(pool)
    moiety.onnxruntime.release(options)
    for wrong in (options, {}, {"gpu_external_alloc": "0"}):
        with pytest.raises(ValueError, match="did not give these options"):
            moiety.onnxruntime.release(wrong)


def test_more_than_there_are_slots(pool):
    tenants = [pool.tenant() for _ in range(17)]
    given = [moiety.onnxruntime.provider_options(tenant)
             for tenant in tenants[:16]]
    with pytest.raises(moiety.Error, match="16 pools.*release") as raised:
        moiety.onnxruntime.provider_options(tenants[16])
    assert raised.value.status == "E_NO_ROOM"
    moiety.onnxruntime.release(given.pop(3))
    given.append(moiety.onnxruntime.provider_options(tenants[16]))
    for options in given:
        session = session_of(options)
        session.free(session.alloc(100))
        moiety.onnxruntime.release(options)


def test_bad_arguments(pool):
    of = moiety.onnxruntime.provider_options
    with pytest.raises(ValueError, match="is of device 0"):
        of(pool, device_id=1)
    with pytest.raises(TypeError, match="is no moiety.Pool"):
        of(5)
    with pytest.raises(ValueError, match="moiety.ANY and moiety.LEGACY"):
        of(pool, stream=12345)
    with pytest.raises(TypeError):
        of(pool, stream="0")
    closed = moiety.Pool()
    closed.close()
    with pytest.raises(ValueError, match="it is closed"):
        of(closed)


def test_the_pools_that_adapters_share():
    options = moiety.onnxruntime.provider_options()
    block = session_of(options).alloc(1000)
    assert moiety.pools()[0].owns(block)
    session_of(options).free(block)
    moiety.onnxruntime.release(options)
    moiety.pools().set_limit(None)


def test_sessions_of_many_threads(pool, options):
    session = session_of(options)

    def run():
        for size in range(1, 400):
            blocks = [session.alloc(size * 64) for _ in range(3)]
            for block in blocks:
                session.free(block)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not pool.used_bytes


def test_an_onnxruntime_without_cuda_is_refused(monkeypatch):
    monkeypatch.setattr(onnxruntime, "get_available_providers",
                        lambda: ["CPUExecutionProvider"])
    with moiety.Pool() as pool:
        with pytest.raises(RuntimeError, match="pip install onnxruntime-gpu"):
            moiety.onnxruntime.provider_options(pool)


def test_without_onnxruntime_it_says_what_to_install():
    ended = subprocess.run(
        [sys.executable, "-c", "import moiety.onnxruntime"],
        capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert "pip install onnxruntime-gpu" in ended.stderr
