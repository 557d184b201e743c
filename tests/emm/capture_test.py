# SPDX-License-Identifier: Apache-2.0
"""The capture guard is held while a framework captures a graph: cuda.core as it
is, on the stand-in driver, and PyTorch and CuPy as modules of the same layout.
tests/numba/gpu_capture.py has the real ones."""

import contextlib
import ctypes
import functools
import gc
import sys
import textwrap
import threading
import time
import weakref
import zipfile

import pytest

import moiety
from moiety import _native
from moiety._capture import guard
from moiety._capture import hook as capture_hook
from support import run_program

TORCH = {
    "torch/__init__.py": "",
    "torch/cuda/__init__.py": "from torch.cuda.graphs import CUDAGraph",
    "torch/cuda/graphs.py": """
        class CUDAGraph:
            fails = False
            def capture_begin(self, mode="global"):
                if self.fails:
                    raise RuntimeError("begin")
                return mode
            def capture_end(self):
                if self.fails:
                    raise RuntimeError("end")
        """,
}
# As it is going to be: the end in halves.
NEWER_TORCH = TORCH | {"torch/cuda/graphs.py": """
    class CUDAGraph:
        def capture_begin(self): pass
        def capture_end_pre(self): pass
        def capture_end(self):
            self.capture_end_pre()
    """}
CUPY = {
    "cupy/__init__.py": "",
    "cupy/cuda/__init__.py": "from cupy.cuda.stream import Stream",
    "cupy/cuda/stream.py": """
        class _BaseStream:
            fails = captures = False
            def __init__(self, ptr=77):
                self.ptr = ptr
            def begin_capture(self, mode=None):
                if self.fails:
                    raise RuntimeError("begin")
                return mode
            def end_capture(self):
                if self.fails:
                    raise RuntimeError("end")
            def is_capturing(self):
                return self.captures
        class Stream(_BaseStream):
            def __del__(self): pass
            @classmethod
            def from_external(cls, other):
                made = cls(other.ptr)
                made._foreign_stream_ref = other
                return made
        class ExternalStream(_BaseStream): pass
        """,
}


MIB = 1 << 20
LARGE = 32 * MIB  # more than half of the pool, once freed


LIBRARY = ctypes.CDLL(_native.__file__)  # and what that is linked with
LIBRARY.moiety_capture_age_ns.restype = ctypes.c_uint64
LATELY_NS = 2_000_000_000


def forget_captures():
    while LIBRARY.moiety_capture_age_ns() < LATELY_NS:
        time.sleep(0.05)


@pytest.fixture(autouse=True)
def captures_of_other_tests_are_forgotten():
    """Else nothing is given back for a while."""
    forget_captures()


def guards():
    """How many guards are held."""
    count = 0
    while True:
        try:
            _native.capture_guard_end()
        except moiety.Error:
            break
        count += 1
    for _ in range(count):
        _native.capture_guard_begin()
    return count


@pytest.fixture(autouse=True)
def no_guard_is_left():
    assert guards() == 0
    yield
    gc.collect()
    assert guards() == 0


@pytest.fixture
def hook():
    made = capture_hook.Hook()
    made.install()
    yield made
    made.uninstall()


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """Makes modules that can be imported until the test is over."""
    def make(files):
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(textwrap.dedent(text))

    def forget():
        for name in list(sys.modules):
            if name.partition(".")[0] in ("torch", "cupy"):
                del sys.modules[name]

    monkeypatch.syspath_prepend(tmp_path)
    forget()
    yield make
    forget()


def torch_graph():
    import torch.cuda

    return torch.cuda.CUDAGraph()


def cupy_stream():
    import cupy.cuda

    return cupy.cuda.Stream()


# How each framework captures: files, what captures, names of begin and end.
FAKES = pytest.mark.parametrize("files, make, begin, end", [
    (TORCH, torch_graph, "capture_begin", "capture_end"),
    (CUPY, cupy_stream, "begin_capture", "end_capture"),
], ids=["torch", "cupy"])


@FAKES
def test_guard_is_held_while_it_captures(fake, hook, files, make, begin, end):
    fake(files)
    owner = make()
    assert getattr(owner, begin)(mode="relaxed") == "relaxed"
    assert guards() == 1
    getattr(owner, end)()
    assert guards() == 0


@FAKES
def test_framework_that_was_imported_before(fake, files, make, begin, end):
    fake(files)
    owner = make()
    hook = capture_hook.Hook()
    hook.install()
    getattr(owner, begin)()
    assert guards() == 1
    getattr(owner, end)()
    hook.uninstall()


@FAKES
def test_capture_that_does_not_begin(fake, hook, files, make, begin, end):
    fake(files)
    owner = make()
    owner.fails = True
    with pytest.raises(RuntimeError, match="begin"):
        getattr(owner, begin)()
    assert guards() == 0


@FAKES
def test_second_begin_that_is_refused_leaves_the_first(fake, hook, files, make,
                                                       begin, end):
    fake(files)
    owner = make()
    getattr(owner, begin)()
    owner.fails = True
    with pytest.raises(RuntimeError):
        getattr(owner, begin)()
    assert guards() == 1
    owner.fails = False
    getattr(owner, end)()


@FAKES
def test_end_that_fails(fake, hook, files, make, begin, end):
    fake(files)
    owner = make()
    getattr(owner, begin)()
    owner.fails = True
    with pytest.raises(RuntimeError, match="end"):
        getattr(owner, end)()
    assert guards() == 0


@FAKES
def test_capture_that_is_dropped(fake, hook, files, make, begin, end):
    fake(files)
    owner = make()
    getattr(owner, begin)()
    del owner
    assert guards() == 0


@FAKES
def test_capture_that_is_given_up_and_begun_again(fake, hook, files, make,
                                                  begin, end):
    fake(files)
    owner = make()
    getattr(owner, begin)()
    getattr(owner, begin)()
    assert guards() == 1
    getattr(owner, end)()


@FAKES
def test_several_captures_at_a_time(fake, hook, files, make, begin, end):
    fake(files)
    owners = [make() for _ in range(3)]
    for index, owner in enumerate(owners):
        owner.ptr = 100 + index
        getattr(owner, begin)()
    assert guards() == 3
    for owner in owners:
        getattr(owner, end)()


@FAKES
def test_nothing_is_kept_of_captures_that_are_over(fake, hook, files, make,
                                                   begin, end):
    fake(files)
    owner = make()
    for _ in range(10):
        getattr(owner, begin)()
        getattr(owner, end)()
    assert weakref.getweakrefcount(owner) == 0


@FAKES
def test_end_without_begin(fake, hook, files, make, begin, end):
    fake(files)
    getattr(make(), end)()
    assert guards() == 0


@FAKES
def test_uninstall_brings_everything_back(fake, hook, files, make, begin, end):
    fake(files)
    owner = make()
    assert hasattr(getattr(type(owner), begin), "__wrapped__")
    hook.uninstall()
    assert not hasattr(getattr(type(owner), begin), "__wrapped__")
    assert not hasattr(getattr(type(owner), end), "__wrapped__")
    assert hook not in sys.meta_path
    getattr(owner, begin)()
    assert guards() == 0


@FAKES
def test_installing_twice_wraps_once(fake, hook, files, make, begin, end):
    fake(files)
    owner = make()
    hook.install()
    assert sys.meta_path.count(hook) == 1
    getattr(owner, begin)()
    assert guards() == 1
    getattr(owner, end)()


@pytest.mark.parametrize("files, make, module", [
    (TORCH, torch_graph, "torch.cuda.graphs"),
    (CUPY, cupy_stream, "cupy.cuda.stream"),
], ids=["torch", "cupy"])
def test_framework_that_has_changed_is_said_once(fake, hook, files, make,
                                                 module):
    text = files[module.replace(".", "/") + ".py"]
    fake(files | {module.replace(".", "/") + ".py":
                  text.replace("capture", "catch")})
    with pytest.warns(RuntimeWarning, match=module) as warned:
        make()
        hook.install()
    assert len(warned) == 1


def test_loader_is_the_one_that_python_chose(fake, hook):
    fake(TORCH)
    import torch.cuda.graphs

    assert type(torch.cuda.graphs.__spec__.loader).__name__ == (
        "SourceFileLoader")


def test_framework_in_a_zip_file(fake, hook, tmp_path, monkeypatch):
    # All modules of a folder in it have one loader.
    graphs = textwrap.dedent(TORCH["torch/cuda/graphs.py"])
    files = TORCH | {"torch/cuda/other.py": "",
                     "torch/cuda/graphs.py": "import torch.cuda.other" + graphs}
    with zipfile.ZipFile(tmp_path / "torch.zip", "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    monkeypatch.syspath_prepend(tmp_path / "torch.zip")
    graph = torch_graph()
    graph.capture_begin()
    assert guards() == 1
    graph.capture_end()


def test_newer_torch_ends_with_the_first_half(fake, hook):
    fake(NEWER_TORCH)
    graph = torch_graph()
    graph.capture_begin()
    graph.capture_end_pre()
    assert guards() == 0
    graph.capture_begin()
    graph.capture_end()
    assert guards() == 0


def external_stream():
    from cupy.cuda.stream import ExternalStream

    return ExternalStream(5)


def foreign_stream():
    from cupy.cuda.stream import Stream

    return Stream.from_external(external_stream())


@pytest.mark.parametrize("make", [external_stream, foreign_stream])
def test_cupys_objects_of_a_stream_of_others_are_one_stream(fake, hook, make):
    fake(CUPY)
    make().begin_capture()
    gc.collect()
    assert guards() == 1
    make().end_capture()
    assert guards() == 0


def test_cupys_end_that_fails_while_the_capture_goes_on(fake, hook):
    fake(CUPY)
    stream = cupy_stream()
    stream.begin_capture()
    stream.fails = stream.captures = True
    with pytest.raises(RuntimeError):
        stream.end_capture()
    assert guards() == 1
    stream.fails = stream.captures = False
    stream.end_capture()


def test_cupys_stream_of_each_thread_is_another(fake, hook):
    fake(CUPY)
    stream = cupy_stream()
    stream.ptr = 2
    stream.begin_capture()
    other = threading.Thread(target=stream.end_capture)
    other.start()
    other.join()
    assert guards() == 1
    stream.end_capture()


def test_child_of_a_fork_captures_without_a_guard(monkeypatch):
    def refuse():
        raise moiety.ForkedError("forked")

    monkeypatch.setattr(_native, "capture_guard_begin", refuse)
    guard.Guard().release()


def make_builder():
    from cuda.core import Device

    device = Device(0)
    device.set_current()
    return device.create_graph_builder()


@pytest.fixture
def builder(driver):
    made = make_builder()
    yield made
    made.close()


def replace_in_another_thread(pool, block):
    """Frees the block and allocates another: what was freed waits for its event,
    which is recorded when somebody wants the memory."""
    def replace():
        block.free()
        pool.alloc(LARGE).free()

    thread = threading.Thread(target=replace)
    thread.start()
    thread.join()


def test_builder_holds_the_guard_while_it_builds(hook, builder):
    assert builder.begin_building("relaxed") is builder
    assert guards() == 1
    assert builder.end_building() is builder
    assert guards() == 0


def test_builder_that_builds_already(hook, builder):
    builder.begin_building()
    with pytest.raises(RuntimeError):
        builder.begin_building()
    assert guards() == 1
    builder.end_building()


def test_builder_that_is_closed(hook, builder):
    builder.begin_building()
    builder.close()
    assert guards() == 0


def test_builder_that_is_dropped(hook, driver):
    builder = make_builder().begin_building()
    assert guards() == 1
    del builder
    gc.collect()
    assert guards() == 0


def test_builder_with_a_wrong_mode(hook, builder):
    with pytest.raises(ValueError, match="mode"):
        builder.begin_building("never")
    assert guards() == 0


def test_builder_is_as_it_was_after_uninstall(hook, builder):
    hook.uninstall()
    builder.begin_building()
    assert guards() == 0
    builder.end_building()


def test_frees_of_others_do_not_break_a_capture(hook, pool, builder):
    block = pool.alloc(LARGE)
    builder.begin_building()
    replace_in_another_thread(pool, block)
    assert builder.is_building
    assert pool.stats().ages_guarded > 0
    builder.end_building()


def test_without_the_guard_they_do(pool, driver):
    # So the test above can fail.
    block, builder = pool.alloc(LARGE), make_builder()
    builder.begin_building()
    replace_in_another_thread(pool, block)
    with pytest.raises(RuntimeError, match="invalidated"):
        builder.is_building
    with pytest.raises(Exception, match="INVALIDATED"):
        builder.close()


def test_numbas_plugin_brings_the_hook():
    done = run_program("""
        import moiety.numba
        from moiety._capture.hook import HOOK
        from cuda.core.graph import GraphBuilder
        print(hasattr(GraphBuilder.begin_building, "__wrapped__"))
        HOOK.uninstall()
        print(hasattr(GraphBuilder.begin_building, "__wrapped__"))
        """)
    assert done.stdout.split() == ["True", "False"], done.stderr


@contextlib.contextmanager
def capturing(driver, stream):
    graph = ctypes.c_void_p()
    _native.capture_guard_begin()
    driver.call("cuStreamBeginCapture_v2", stream, 2)
    yield
    driver.call("cuStreamEndCapture", stream, ctypes.byref(graph))
    _native.capture_guard_end()


def test_a_capture_gets_no_memory_from_a_pool_without_scopes(pool, driver):
    stream = driver.stream()
    with capturing(driver, stream):
        with pytest.raises(moiety.Error, match="auto_scope=True") as raised:
            pool.alloc(1000, stream=stream.value)
    assert raised.value.status == "E_CAPTURING"


def test_a_pool_keeps_a_captures_memory_until_its_scopes_are_released(driver):
    stream = driver.stream()
    with moiety.Pool(auto_scope=True) as pool:
        with capturing(driver, stream):
            block = pool.alloc(MIB, stream=stream.value)
            kept = block.address
            block.free(stream=stream.value)
        others = [pool.alloc(MIB, stream=stream.value) for _ in range(8)]
        assert kept not in [other.address for other in others]
        del others
        pool.release_scopes()
        driver.call("cuCtxSynchronize")
        pool.trim(wait=True)
        assert not pool.used_bytes and not pool.total_bytes
    with pytest.raises(ValueError, match="closed"):
        pool.release_scopes()


# --- ends at a moment that nobody chose, without a guard ---

def free_bytes(driver):
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    driver.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
    return free.value


def expect_to_end(driver, before):
    """A pool that is made tries those that could not end, and waits for none."""
    forget_captures()
    while free_bytes(driver) < before:
        moiety.Pool().close()


def capture_while(driver, stream, mode, work):
    """Another thread does the work, and the capture ends well."""
    graph = ctypes.c_void_p()
    driver.call("cuStreamBeginCapture_v2", stream, mode)
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    driver.call("cuStreamEndCapture", stream, ctypes.byref(graph))


@pytest.mark.parametrize("make, end, mode", [
    (moiety.Pool, "close", 0),
    (functools.partial(moiety.Pool, memory="mapped"), "drop", 1),
    (moiety.HostArena, "exit", 0)], ids=["driver", "mapped", "arena"])
def test_an_end_spares_the_capture_of_a_blocking_stream(driver, make, end,
                                                        mode):
    stream = ctypes.c_void_p()
    driver.call("cuStreamCreate", ctypes.byref(stream), 0)
    before = free_bytes(driver)
    spaces = [make(wait_ms=0)]
    spaces[0].alloc(MIB).free()
    left = [spaces[0].alloc(MIB)]

    def work():
        if end == "close":
            assert spaces[0].close() == 1
        elif end == "exit":
            with spaces[0]:
                pass
        del left[0]
        spaces.clear()
        gc.collect()

    capture_while(driver, stream, mode, work)
    expect_to_end(driver, before)


def test_a_pool_that_is_dropped_under_a_guard_ends_after_it(driver):
    before = free_bytes(driver)
    pool = moiety.Pool()
    pool.alloc(MIB).free()
    _native.capture_guard_begin()
    del pool
    assert free_bytes(driver) < before
    _native.capture_guard_end()
    assert free_bytes(driver) == before


def test_an_end_that_is_refused_once_more_comes_later(driver):
    """The guard's end tries it, and meets a capture that nobody guards."""
    stream = ctypes.c_void_p()
    driver.call("cuStreamCreate", ctypes.byref(stream), 0)
    before = free_bytes(driver)
    pools = [moiety.Pool()]
    pools[0].alloc(MIB).free()
    _native.capture_guard_begin()
    pools.clear()
    capture_while(driver, stream, 2, _native.capture_guard_end)
    assert free_bytes(driver) < before
    expect_to_end(driver, before)


def test_what_is_watched_is_released_when_the_pool_ends(driver):
    stream = ctypes.c_void_p()
    driver.call("cuStreamCreate", ctypes.byref(stream), 0)
    before = free_bytes(driver)
    released = []
    pool = moiety.Pool()
    pool.watch_segments(releasing=released.append)
    pool.alloc(MIB).free()

    def work():
        assert pool.close() == 0 and not pool.is_open and not released

    capture_while(driver, stream, 0, work)
    expect_to_end(driver, before)
    assert len(released) == 1
