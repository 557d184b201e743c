# SPDX-License-Identifier: Apache-2.0
"""moiety.torch.load_once() on a GPU: what the second process has is what the first
one had.

    pytest once_gpu.py

Needs PyTorch with CUDA and a device. The second "process" is mostly a second keeper's
connection of this one: what crosses is the region alone.
"""

import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest
import torch

import moiety
import moiety.regions
import moiety.torch


@pytest.fixture(scope="session")
def path(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("keeper") / "socket")
    process = subprocess.Popen([sys.executable, "-m", "moiety", "serve",
                                f"--socket={path}", "--limit=8GiB"])
    while process.poll() is None:
        try:
            moiety.regions.connect(path).close()
            break
        except moiety.PeerGoneError:
            time.sleep(0.01)  # it has just been started
    yield path
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0


@pytest.fixture
def keepers(path):
    """Two connections. They stay open, as tensors may be left; so regions that were
    dropped stay listed."""
    yield moiety.regions.connect(path), moiety.regions.connect(path)
    with moiety.regions.connect(path) as keeper:
        for entry in keeper.entries():
            if entry.state == "committed":
                keeper.drop(entry.name)


class Mixed(torch.nn.Module):
    """All that can be shared: ties, views, buffers of both kinds, attributes."""

    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(64, 64)
        self.tied = torch.nn.Linear(64, 64)
        self.tied.weight = self.first.weight
        self.norm = torch.nn.BatchNorm1d(64)
        self.register_buffer("turned", torch.randn(3, 5).t())
        self.register_buffer("rotary", torch.randn(7, dtype=torch.float64),
                             persistent=False)
        self.register_buffer("mask", torch.tensor([True, False, True]))
        self.register_buffer("empty", torch.empty(0, 4))
        self.register_buffer("count", torch.tensor(5))
        self.original = self.rotary
        self.halves = torch.nn.Parameter(torch.randn(4, 6).bfloat16())
        self.part = self.halves.data[1:3, ::2]
        self.alone = torch.nn.ParameterDict({"key": torch.randn(2)})

    def forward(self, x):
        return self.tied(self.norm(self.first(x))) + self.count * self.rotary.sum()


def tensors(module):
    return {**dict(module.named_parameters(remove_duplicate=False)),
            **dict(module.named_buffers(remove_duplicate=False)),
            "original": module.original, "part": module.part}


def test_all_that_a_module_has_is_in_the_region(keepers):
    before, loads = {}, []

    def load():
        module = Mixed()
        loads.append(1)
        before.update({name: (tensor.detach().clone(), tensor.dtype, tensor.stride())
                       for name, tensor in tensors(module).items()})
        return module

    one = moiety.torch.load_once(keepers[0], "mixed", load)
    two = moiety.torch.load_once(keepers[1], "mixed", Mixed)
    assert len(loads) == 1
    for module in (one, two):
        assert not module.training
        assert module.tied.weight is module.first.weight
        assert module.original is module.rotary
        assert isinstance(module.halves, torch.nn.Parameter)
        assert isinstance(module.alone["key"], torch.nn.Parameter)
        for name, tensor in tensors(module).items():
            value, dtype, strides = before[name]
            assert tensor.is_cuda and not tensor.requires_grad, name
            assert torch.equal(tensor.cpu(), value), name
            assert (tensor.dtype, tensor.stride()) == (dtype, strides), name
        # A view is one, and others are none.
        assert module.part.data_ptr() - module.halves.data_ptr() == 6 * 2
        assert module.part.untyped_storage().nbytes() == 4 * 6 * 2
        assert module.count.untyped_storage().nbytes() == 8
    x = torch.randn(9, 64, device="cuda")
    assert torch.equal(one(x), two(x))
    assert "rotary" not in two.state_dict()


def test_a_recurrent_layer_computes_the_same(keepers):
    def load():
        torch.manual_seed(7)
        return torch.nn.LSTM(16, 32, 2)

    x = torch.randn(5, 3, 16, device="cuda")
    wanted = load().cuda()(x)[0]
    for keeper in keepers:
        found = moiety.torch.load_once(keeper, "recurrent", load)(x)[0]
        assert torch.allclose(found, wanted, atol=1e-6)


def test_a_module_on_the_device_and_one_on_the_host_are_alike(keepers):
    def load():
        torch.manual_seed(3)
        return torch.nn.Linear(512, 512)

    wanted = load().weight
    there = moiety.torch.load_once(keepers[0], "there", lambda: load().to("cuda"))
    here = moiety.torch.load_once(keepers[0], "here", load)
    assert torch.equal(there.weight.cpu(), wanted)
    assert torch.equal(here.weight.cpu(), wanted)
    again = moiety.torch.load_once(keepers[1], "there", lambda: load().to("cuda"),
                                   skeleton=load)
    assert torch.equal(again.weight.cpu(), wanted)


def test_a_load_that_moves_the_module_needs_a_skeleton(keepers):
    def load():
        return torch.nn.Linear(4, 4).to("cuda")

    moiety.torch.load_once(keepers[0], "moved", load)
    with pytest.raises(ValueError, match="`skeleton`"):
        moiety.torch.load_once(keepers[1], "moved", load)


def test_the_region_decides_the_type(keepers):
    moiety.torch.load_once(keepers[0], "half",
                           lambda: torch.nn.Linear(8, 8).bfloat16())
    two = moiety.torch.load_once(keepers[1], "half",
                                 lambda: torch.nn.Linear(8, 8))
    assert two.weight.dtype == torch.bfloat16


class Listed(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.several = [torch.zeros(3)]


class Deeper(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.cache = {"layer": [(1, torch.zeros(3))]}


class Unregistered(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = [torch.nn.Linear(2, 2)]


class Attributed(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(3))
        self.weight.scales = [torch.ones(1)]


class Emptied(torch.nn.Module):
    """As FSDP leaves parameters that are elsewhere."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(3))
        self.weight.untyped_storage().resize_(0)


class Twice(torch.Tensor):
    pass


class Subclassed(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("odd", torch.zeros(3).as_subclass(Twice))


class Sparse(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("few", torch.eye(3).to_sparse())


@pytest.mark.parametrize("load, words", [
    (Listed, "several"), (Deeper, "cache"), (Unregistered, "blocks"),
    (Attributed, "weight: it has attributes with tensors"), (Emptied, "weight: it has a storage"),
    (Subclassed, "odd: it is a Twice"),
    (Sparse, "few: it is torch.sparse_coo"),
    (lambda: torch.nn.Linear(3, 3, device="meta"), "weight: it has no data")])
def test_what_cannot_be_shared_is_refused_and_leaves_nothing(
        keepers, load, words):
    with pytest.raises(ValueError, match=words):
        moiety.torch.load_once(keepers[0], "refused", load)
    while any(entry.name.startswith("refused") and entry.state != "dropped"
              for entry in keepers[1].entries()):
        time.sleep(0.001)  # its lease ends
    moiety.torch.load_once(keepers[1], "refused", lambda: torch.nn.Linear(2, 2))


def test_another_module_or_key_is_refused(keepers):
    moiety.torch.load_once(keepers[0], "linear",
                           lambda: torch.nn.Linear(8, 4), key="a")
    with pytest.raises(ValueError, match="with the key 'a', and not 'b'"):
        moiety.torch.load_once(keepers[1], "linear",
                               lambda: torch.nn.Linear(8, 4), key="b")
    with pytest.raises(ValueError, match=r"weight is a parameter of shape \(4, 8\)"):
        moiety.torch.load_once(keepers[1], "linear",
                               lambda: torch.nn.Linear(4, 8), key="a")
    with pytest.raises(ValueError, match="bias is not in the module"):
        moiety.torch.load_once(
            keepers[1], "linear", lambda: torch.nn.Linear(8, 4, bias=False),
            key="a")
    # The refused calls left no lease.
    entry, = (one for one in keepers[1].entries()
              if (one.name, one.state) == ("linear", "committed"))
    assert entry.holders == 1


def test_a_region_of_somebody_else_is_refused(keepers):
    keepers[0].create("other", {0: "2MiB"}).commit(b"not a layout")
    with pytest.raises(ValueError, match="not made by load_once"):
        moiety.torch.load_once(keepers[1], "other", Mixed)


def test_a_load_that_fails_makes_the_next_one_load(keepers):
    def fail():
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        moiety.torch.load_once(keepers[0], "again", fail)
    module = moiety.torch.load_once(keepers[1], "again",
                                    lambda: torch.nn.Linear(2, 2))
    assert module.weight.is_cuda


PROGRAM = """
    import hashlib, os, sys, time, torch
    import moiety.regions, moiety.torch

    def load():
        print("loads", flush=True)
        if sys.argv[2] == "hang":
            time.sleep(1000)  # until it is killed
        torch.manual_seed(int(sys.argv[3]))
        return torch.nn.Linear(1024, 1024)

    module = moiety.torch.load_once(
        moiety.regions.connect(sys.argv[1]), "started", load,
        skeleton=lambda: torch.nn.Linear(1024, 1024))
    text = module.weight.cpu().numpy().tobytes()
    print(hashlib.sha256(text).hexdigest(), flush=True)
    if sys.argv[2] == "write":
        module.weight.data.zero_()
        torch.cuda.synchronize()
"""


def start(path, *words):
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(PROGRAM), path, *words],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_of_several_starters_one_loads_and_its_death_makes_another_one(
        keepers, path):
    first = start(path, "hang", "0")
    assert first.stdout.readline() == "loads\n"
    others = [start(path, "go", str(seed)) for seed in (1, 2, 3)]
    time.sleep(1)  # so that they wait, mostly; it works without
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    said = [one.communicate(timeout=120)[0].split() for one in others]
    assert sum(words.count("loads") for words in said) == 1
    assert len({words[-1] for words in said}) == 1
    # All of them have ended.
    last = start(path, "go", "4")
    assert last.communicate(timeout=120)[0].split() == [said[0][-1]]


def test_a_limit_of_time(keepers, path):
    first = start(path, "hang", "0")
    assert first.stdout.readline() == "loads\n"
    with pytest.raises(moiety.TimedOutError, match="another process loads"):
        moiety.torch.load_once(keepers[0], "started",
                               lambda: torch.nn.Linear(2, 2), limit_s=0.1)
    first.kill()
    first.wait()


def test_a_write_is_an_error_and_changes_nothing(keepers, path):
    made = start(path, "go", "1").communicate(timeout=120)[0].split()
    writer = start(path, "write", "1")
    assert "CUDA error" in writer.communicate(timeout=120)[1]
    assert writer.returncode
    again = start(path, "go", "2").communicate(timeout=120)[0].split()
    assert again == made[-1:]


@pytest.mark.parametrize("options, error", [
    ({"key": 5}, TypeError), ({"device": "cpu"}, ValueError),
    ({"nmae": 1}, TypeError)])
def test_wrong_arguments(keepers, options, error):
    with pytest.raises(error):
        moiety.torch.load_once(keepers[0], "never", Mixed, **options)
    assert not any(entry.name == "never" for entry in keepers[0].entries())


def test_names_that_no_region_can_have(keepers):
    for name in ("a/b", "x" * 10_000, "", "a\0b", "m#loading"):
        with pytest.raises((ValueError, moiety.Error)):
            moiety.torch.load_once(keepers[0], name, Mixed)
