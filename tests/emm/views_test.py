# SPDX-License-Identifier: Apache-2.0
"""Pinned memory by the buffer protocol, and what notebooks show."""

import gc
import html.parser

import moiety
import pytest
from support import MIB, run_program, run_threads

np = pytest.importorskip("numpy")


def live_count(space):
    return space.stats().allocation_current


# --- the buffer protocol ---

def test_a_view_has_the_bytes(arena):
    block = arena.alloc(5000)
    view = memoryview(block)
    assert (view.nbytes, view.format, view.ndim, view.readonly, view.shape,
            view.strides) == (5000, "B", 1, False, (5000,), (1,))
    assert view.obj is block and view.c_contiguous
    view[:3] = b"abc"
    assert bytes(block)[:3] == bytes(view[:3]) == b"abc"
    array = np.frombuffer(block, np.uint16, count=4)
    assert array.ctypes.data == block.address
    array[0] = 0x4142
    assert bytes(view[:2]) == b"BA"
    assert bytearray(view)[:2] == bytearray(block)[:2] == b"BA"
    assert len(bytearray(block)) == 5000


def test_dlpack_gives_what_can_be_written(arena):
    block = arena.alloc(5000)
    array = np.from_dlpack(block)
    array[:3] = 7
    assert bytes(block)[:3] == bytes([7, 7, 7])


def test_what_reads_into_buffers_takes_a_block(arena, tmp_path):
    path = tmp_path / "data"
    path.write_bytes(b"0123456789")
    block = arena.alloc(10)
    with open(path, "rb", buffering=0) as file:
        assert file.readinto(block) == 10
    assert bytes(block) == b"0123456789"
    with open(path, "wb") as file:
        file.write(block)
    assert path.read_bytes() == b"0123456789"


def test_nothing_has_an_empty_view(arena):
    assert bytes(memoryview(arena.alloc(0))) == b""


def test_a_view_keeps_the_block(arena):
    view = memoryview(arena.alloc(5000))
    part = view[10:20]
    view.release()
    assert live_count(arena) == 1
    part[:] = bytes(10)
    del part
    assert live_count(arena) == 0


def test_a_free_waits_for_the_last_view(arena):
    block = arena.alloc(5000)
    first, second = memoryview(block), memoryview(block)
    block.free()
    assert not block.is_live and repr(block).endswith(", freed>")
    block.free()
    with pytest.raises(ValueError, match="freed"):
        memoryview(block)
    first[:4] = b"here"
    first.release()
    assert bytes(second[:4]) == b"here" and live_count(arena) == 1
    second.release()
    assert live_count(arena) == 0
    del block
    assert live_count(arena) == 0


def test_with_is_a_free(arena):
    with arena.alloc(MIB) as block:
        array = np.frombuffer(block, np.uint8)
    array[:] = 3
    assert array.sum() == 3 * MIB and live_count(arena) == 1
    del array
    assert live_count(arena) == 0


def test_a_free_that_fails_late_is_told(arena, monkeypatch):
    told = []
    monkeypatch.setattr("sys.unraisablehook",
                        lambda what: told.append(what.exc_value.status))
    block = arena.alloc(5000)
    view = memoryview(block)
    block.free(0xdead000)
    view.release()
    assert len(told) == 1 and block.is_live
    del block
    assert live_count(arena) == 0


def test_a_freed_block_has_no_view(arena):
    block = arena.alloc(5000)
    block.free()
    for refused in (memoryview, np.frombuffer, bytes):
        with pytest.raises(ValueError, match="freed"):
            refused(block)


CLOSED = """
    import moiety
    def view():
        with moiety.HostArena() as arena:
            kept = memoryview(arena.alloc(1 << 20))
            unseen = arena.alloc(1 << 20)
            freed = memoryview(arena.alloc(1 << 20))
            freed.obj.free()
            assert arena.close() == 1 and not unseen.is_live
        freed[:] = bytes(1 << 20)
        assert repr(unseen).startswith("<moiety.HostBlock of")
        assert repr(unseen).endswith(", freed>")
        return kept
    kept = view()
    kept[:4] = b"kept"
    assert bytes(kept.obj)[:4] == b"kept"
    print("well")
"""


def test_a_view_keeps_its_bytes_when_the_arena_is_closed():
    ended = run_program(CLOSED)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "well\n", "")


def test_memory_of_a_device_has_no_view(pool):
    block = pool.alloc(5000)
    for refused in (memoryview, np.frombuffer, bytes):
        with pytest.raises(TypeError, match="moiety.Block|on the device"):
            refused(block)


def test_views_of_many_threads(arena):
    block = arena.alloc(5000)
    rounds = 300

    def work(_):
        for _ in range(rounds):
            with memoryview(block) as view:
                view[0] = 1
            with arena.alloc(600) as own:
                held = memoryview(own)
            held[-1:] = b"x"
            del held, own

    run_threads(4, work)
    assert live_count(arena) == 1


def test_a_block_that_was_closed_with_its_pool_is_freed():
    pool = moiety.Pool()
    block = pool.alloc(5000)
    pool.close()
    assert repr(block).endswith(", freed>")


# --- life of a pool ---

def test_a_pool_is_made_once():
    for made in (moiety.Pool(), moiety.HostArena(touch_threads=1)):
        with pytest.raises(TypeError, match="called before"):
            made.__init__()
        made.close()
        with pytest.raises(TypeError, match="called before"):
            made.__init__()
    assert moiety.pool_of(1) is None


def test_a_pool_that_could_not_be_made_may_be_made_again():
    pool = moiety.Pool.__new__(moiety.Pool)
    with pytest.raises(moiety.Error):
        pool.__init__(device=99)
    pool.__init__()
    block = pool.alloc(1)
    assert moiety.pool_of(block.address) is pool


# --- notebooks ---

class Table(html.parser.HTMLParser):
    """Its texts, when each element ends that began."""

    def __init__(self, text):
        super().__init__()
        self.open, self.texts = [], []
        self.feed(text)
        self.close()
        assert not self.open and text.startswith("<table>")

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


def shown(thing):
    return Table(thing._repr_html_()).texts


def test_pools_as_tables(pool, arena):
    block = pool.alloc(3 * MIB)
    texts = shown(pool)
    assert texts[0] == "moiety.Pool, device 0"
    assert texts[texts.index("in use") + 1] == "3\u00a0MiB"
    assert texts[texts.index("blocks") + 1] == "1"
    assert shown(arena)[0] == "moiety.HostArena, device 0"
    assert "nodes" in shown(arena)
    del block


def test_blocks_as_tables(pool, arena):
    tenant = pool.tenant("batch", budget=8 * MIB)
    block = tenant.alloc(5000)
    texts = shown(block)
    assert texts[0] == "moiety.Block" and "4.883\u00a0KiB" in texts
    assert f"{block.address:#x}" in texts and "batch" in texts
    assert repr(pool) in texts
    assert repr(arena) in shown(arena.alloc(512))
    block.free()
    assert shown(block) == [repr(block)]


def test_a_name_is_no_markup(pool):
    tenant = pool.tenant("<b>&\"x\"")
    assert "<b>" not in tenant._repr_html_()
    assert shown(tenant)[0] == "moiety.Tenant '<b>&\"x\"'"
    assert "any amount" in shown(tenant)
    block = tenant.alloc(1)
    assert "<b>" not in block._repr_html_()


def test_what_is_closed_is_one_line():
    pool = moiety.Pool()
    tenant = pool.tenant("batch")
    pool.close()
    gc.collect()
    assert shown(pool) == [repr(pool)]
    assert shown(tenant) == [repr(tenant)]


def test_no_number_breaks_from_its_unit(pool, arena):
    for thing in (pool, arena, pool.tenant("a", budget=MIB),
                  arena.alloc(5000)):
        text = thing._repr_html_()
        for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
            assert f" {unit}<" not in text
