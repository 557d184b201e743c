# SPDX-License-Identifier: Apache-2.0
"""Making the library that is PyTorch's allocator, with a PyTorch that is a folder
and a compiler that notes what it is asked; and what moiety.torch refuses."""

import os
import shutil
import subprocess
import sys
import textwrap
import types

import pytest

import moiety
import moiety.torch
from moiety._torch import build, recipe

COMPILER = """\
#!{python}
import os, sys, time
with open({notes!r}, "a") as notes:
    notes.write(" ".join(sys.argv[1:]) + "\\n")
# The others come meanwhile, most times.
time.sleep(0.2)
{rest}
out = sys.argv[sys.argv.index("-o") + 1]
open(out, "w").write("made")
"""
FAILS = 'open(sys.argv[sys.argv.index("-o") + 1], "w").write("ha"); ' \
    'sys.exit("enable.cc:1: error: no")'


@pytest.fixture
def torch_folder(tmp_path):
    """With the headers beside it that PyTorch's wheels bring."""
    site = tmp_path / "site"
    for name in ("nvidia/cu13/include/cuda_runtime_api.h",
                 "nvidia/cu13/include/crt/host_defines.h"):
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).touch()
    (site / "torch" / "lib").mkdir(parents=True)
    return site / "torch"


@pytest.fixture
def compiler(tmp_path, monkeypatch):
    """Makes a compiler; what it was asked, a line each."""
    notes = tmp_path / "notes"

    def make(rest=""):
        path = tmp_path / "compiler"
        path.write_text(COMPILER.format(python=sys.executable,
                                        notes=str(notes), rest=rest))
        path.chmod(0o755)
        monkeypatch.setenv("CXX", str(path))
        return lambda: (notes.read_text().splitlines() if notes.exists()
                        else [])

    monkeypatch.setenv("MOIETY_TORCH_CACHE", str(tmp_path / "cache"))
    for name in ("CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(name, raising=False)
    return make


def test_it_is_made_once(compiler, torch_folder):
    asked = compiler()
    path = build.library("2.11.0", "abc", torch_folder)
    assert path.read_text() == "made"
    assert build.library("2.11.0", "abc", torch_folder) == path
    assert len(asked()) == 1
    [words] = asked()
    for word in ("allocator.cc", "enable.cc", "pinned_arenas.cc", "-lc10_cuda", "libmoiety.so.0",
                 f"-isystem {torch_folder}/include"):
        assert word in words
    assert sorted(one.name for one in path.parent.iterdir()) == [
        build.LIBRARY, "lock"]


def test_another_release_is_another_library(compiler, torch_folder):
    compiler()
    paths = {build.library("2.11.0", "abc", torch_folder),
             build.library("2.11.0", "abd", torch_folder),
             build.library("2.10.0", "abc", torch_folder)}
    assert len(paths) == 3


def test_one_of_several_processes_makes_it(compiler, torch_folder):
    asked = compiler()
    code = "import sys, pathlib\nfrom moiety._torch import build\n" \
        "print(build.library('2.11.0', 'abc', pathlib.Path(sys.argv[1])))"
    children = [subprocess.Popen(
        [sys.executable, "-c", code, str(torch_folder)], text=True,
        stdout=subprocess.PIPE) for _ in range(4)]
    paths = {child.communicate(timeout=60)[0] for child in children}
    assert all(child.returncode == 0 for child in children)
    assert len(paths) == 1 and len(asked()) == 1


def test_a_build_that_fails_leaves_nothing(compiler, torch_folder):
    compiler(FAILS)
    with pytest.raises(build.BuildError, match="enable.cc:1: error: no"):
        build.library("2.11.0", "abc", torch_folder)
    [folder] = build.cache_folder().iterdir()
    assert [one.name for one in folder.iterdir()] == ["lock"]
    compiler()
    assert build.library("2.11.0", "abc", torch_folder).read_text() == "made"


def test_a_release_that_was_never_seen(compiler, torch_folder):
    asked = compiler()
    assert build.library("9.12.0a0+git1", "abc", torch_folder)
    assert "-DMOIETY_TORCH_MAJOR=9 -DMOIETY_TORCH_MINOR=12" in asked()[0]
    compiler(FAILS)
    with pytest.raises(build.BuildError, match="not known to serve PyTorch 9.9"):
        build.library("9.9.0", "abc", torch_folder)
    with pytest.raises(build.BuildError, match="no number of a release"):
        build.library("main", "abc", torch_folder)


def test_a_worker_that_dies_leaves_nothing(compiler, torch_folder):
    # It outlives its parent for a while.
    compiler("os.kill(os.getppid(), 9); time.sleep(1)")
    child = subprocess.run(
        [sys.executable, "-c", "import sys, pathlib\n"
         "from moiety._torch import build\n"
         "build.library('2.11.0', 'abc', pathlib.Path(sys.argv[1]))",
         str(torch_folder)], check=False)
    assert child.returncode == -9
    compiler()
    assert build.library("2.11.0", "abc", torch_folder).read_text() == "made"


def test_no_compiler(compiler, torch_folder, monkeypatch):
    compiler()
    monkeypatch.setenv("CXX", "/no/such/compiler")
    with pytest.raises(build.BuildError, match="no such C.. compiler: install"):
        build.library("2.11.0", "abc", torch_folder)


def test_no_headers(compiler, torch_folder):
    compiler()
    header = torch_folder.parent / "nvidia/cu13/include/crt/host_defines.h"
    header.unlink()
    if os.path.exists("/usr/local/cuda/include/crt/host_defines.h"):
        assert build.library("2.11.0", "abc", torch_folder)
        return
    with pytest.raises(build.BuildError, match="crt/host_defines.h> of CUDA"):
        build.library("2.11.0", "abc", torch_folder)


def test_no_place_to_keep_it(compiler, torch_folder, monkeypatch, tmp_path):
    compiler()
    (tmp_path / "file").touch()
    monkeypatch.setenv("MOIETY_TORCH_CACHE", str(tmp_path / "file"))
    with pytest.raises(build.BuildError, match="MOIETY_TORCH_CACHE names"):
        build.library("2.11.0", "abc", torch_folder)


def torch_like(folder, version="2.11.0", cuda="13.0", has_cxx11_abi=True):
    return types.SimpleNamespace(
        __version__=version, __file__=str(folder / "__init__.py"),
        version=types.SimpleNamespace(cuda=cuda, git_version="abc"),
        _C=types.SimpleNamespace(_GLIBCXX_USE_CXX11_ABI=has_cxx11_abi))


@pytest.fixture
def brought(tmp_path, monkeypatch):
    """What a wheel brings for 2.10 and 2.11: libraries that load."""
    monkeypatch.setattr(build, "PREBUILT", tmp_path / "prebuilt")
    build.PREBUILT.mkdir()
    for release in ("2.10", "2.11"):
        shutil.copy(build.PACKAGE / "libmoiety.so.0", build.PREBUILT /
                    recipe.prebuilt_name(release, build.SOURCES))
    return build.PREBUILT


@pytest.mark.parametrize("version, cuda", [
    ("2.11.0", "13.0"), ("2.11.0+cu128", "12.8"), ("2.10.1", "12.6"),
])
def test_what_the_wheel_brings_is_taken(compiler, brought, torch_folder,
                                        version, cuda):
    asked = compiler()
    torch = torch_like(torch_folder, version, cuda)
    path = build.prebuilt(torch)
    assert path.parent == brought
    assert f"-{version[:4]}-" in path.name
    assert build.load(torch)._name == str(path)
    assert not asked()


@pytest.mark.parametrize("options", [
    {"version": "2.9.1"}, {"version": "2.12.0"}, {"version": "3.11.0"},
    {"version": "2.11.0a0+git1"}, {"version": "2.11.0.dev20260101+cu130"},
    {"version": "2.11.0rc1"}, {"cuda": "11.8"}, {"cuda": "14.0"},
    {"has_cxx11_abi": False},
])
def test_what_was_made_for_another_pytorch_is_not(brought, tmp_path, options):
    assert build.prebuilt(torch_like(tmp_path, **options)) is None


def test_what_other_sources_made_is_not_taken(brought, tmp_path, monkeypatch):
    assert build.prebuilt(torch_like(tmp_path))
    shutil.copytree(build.SOURCES, tmp_path / "csrc")
    with open(tmp_path / "csrc/include/moiety/version.h", "a") as header:
        header.write("/* of another version */\n")
    monkeypatch.setattr(build, "SOURCES", tmp_path / "csrc")
    assert build.prebuilt(torch_like(tmp_path)) is None


def test_one_can_do_without_what_the_wheel_brings(brought, tmp_path,
                                                  monkeypatch):
    monkeypatch.setenv("MOIETY_TORCH_PREBUILT", "0")
    assert build.prebuilt(torch_like(tmp_path)) is None


def test_what_does_not_load_is_passed_over(compiler, brought, torch_folder):
    torch = torch_like(torch_folder)
    build.prebuilt(torch).write_text("of another machine")
    asked = compiler(f"import shutil; out = sys.argv[sys.argv.index('-o') + 1]; "
                     f"shutil.copy({str(build.PACKAGE / 'libmoiety.so.0')!r}, "
                     f"out); sys.exit()")
    assert build.load(torch)._name.startswith(str(build.cache_folder()))
    assert len(asked()) == 1


def test_a_library_that_does_not_load_is_an_error(compiler, torch_folder):
    compiler()
    with pytest.raises(build.BuildError, match="libmoiety_torch.so: "):
        build.load(torch_like(torch_folder))


@pytest.mark.parametrize("options, error, words", [
    ({"memory": "fast"}, ValueError, "accepted are 'auto'"),
    ({"ipc": True, "memory": "mapped"}, ValueError, "memory of the driver"),
    ({"limit": -1}, OverflowError, "accepted are whole numbers"),
    ({"limit": "8GB"}, ValueError, "limit is '8GB'"),
    ({"limit": True}, TypeError, "limit is True"),
])
def test_bad_options(options, error, words):
    with pytest.raises(error, match=words):
        moiety.torch.enable(**options)
    assert not moiety.torch.is_enabled()


@pytest.mark.parametrize("options, refused, calls", [
    ({}, None, ["enable"]),
    ({"pinned": True}, None, ["pinned 1", "enable", "pinned 0"]),
    ({"pinned": True}, "pinned 1", ["pinned 1"]),
    ({"pinned": True}, "enable", ["pinned 1", "enable"]),
])
def test_pinned_memory_is_asked_for_before_anything_changes(
        monkeypatch, options, refused, calls):
    made = []

    def note(name):
        made.append(name)
        return int(name == refused)

    library = types.SimpleNamespace(
        moiety_torch_enable=lambda options: note("enable"),
        moiety_torch_enable_pinned=lambda only_checks:
        note(f"pinned {only_checks.value}"))
    monkeypatch.setattr(moiety.torch, "_enabled", None)
    monkeypatch.setattr(moiety.torch, "_torch", lambda: types.SimpleNamespace(
        cuda=types.SimpleNamespace(is_initialized=lambda: False)))
    monkeypatch.setattr(build, "load", lambda torch: library)
    if refused:
        with pytest.raises(moiety.Error):
            moiety.torch.enable(**options)
    else:
        moiety.torch.enable(**options)
    assert made == calls and moiety.torch.is_enabled() == (not refused)


def run_with(tmp_path, torch, *arguments):
    """`python -m moiety.torch` beside a module called torch."""
    (tmp_path / "fakes").mkdir()
    (tmp_path / "fakes" / "torch.py").write_text(textwrap.dedent(torch))
    path = os.pathsep.join([str(tmp_path / "fakes"),
                            os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, "-m", "moiety.torch", *arguments], text=True,
        capture_output=True, check=False,
        env={**os.environ, "PYTHONPATH": path})


@pytest.mark.parametrize("torch, words", [
    ("raise ImportError('no such library')", "PyTorch is not installed"),
    ("""
     __version__ = "2.11.0+cpu"
     class version: cuda = None
     """, "PyTorch 2.11.0+cpu is built without CUDA"),
    ("""
     __version__ = "2.11.0"
     class version: cuda = "13.0"
     class cuda: is_initialized = staticmethod(lambda: True)
     """, "CUDA has started in this process"),
])
def test_a_pytorch_that_will_not_do(tmp_path, torch, words):
    done = run_with(tmp_path, torch, "train.py")
    assert done.returncode == 1
    assert done.stderr.startswith("moiety.torch: ") and words in done.stderr


def test_usage(tmp_path):
    done = run_with(tmp_path, "")
    assert done.returncode == 2 and "usage:" in done.stderr


def test_errors_are_moietys():
    assert issubclass(moiety.torch.BuildError, moiety.Error)
