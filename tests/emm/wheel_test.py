# SPDX-License-Identifier: Apache-2.0
"""The package as users install it: a wheel from the checkout, one from an
sdist, and the repaired one in an environment where nothing else is."""

import email
import os
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

import moiety

CHECKOUT = Path(__file__).resolve().parents[2]
PARTS = ("bench/base", "bench/harness", "bench/lag", "bench/replay",
         "bench/subjects", "bench/workloads", "emm", "numa", "pool", "serve",
         "tests/oracle")
FILES = ("LICENSE", "docs/moiety.1")
IGNORED = shutil.ignore_patterns("build", "*.egg-info", "__pycache__")
PROGRAMS = {"_programs/bench", "_programs/replay", "_programs/serve"}
STANDIN = "standin/libcuda.so.1"
MODULES = {"_native.abi3.so", "_nep49.abi3.so"}
LIBRARY = "libmoiety.so.0"
# Where Debian 12 has NumPy 1.24, which bazelw installs.
DEBIANS = "/usr/lib/python3/dist-packages"


def run(*command, **options):
    environment = dict(os.environ)
    # Nothing but what is installed: neither the tree's package nor its driver.
    for name in ("PYTHONPATH", "LD_LIBRARY_PATH"):
        environment.pop(name, None)
    environment.update(options.pop("env", {}))
    folder = Path(sys.executable).parent
    environment["PATH"] = f"{folder}{os.pathsep}{environment['PATH']}"
    done = subprocess.run([str(word) for word in command], text=True,
                          capture_output=True, env=environment, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def build_wheel(project, target):
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-index",
        "--no-build-isolation", "--no-cache-dir", "--no-deps",
        "--wheel-dir", target, project)
    [wheel] = target.glob("*.whl")
    return wheel


def names_in(wheel):
    return {name for name in zipfile.ZipFile(wheel).namelist()
            if not name.endswith("/")}


def unpack(wheel, target):
    zipfile.ZipFile(wheel).extractall(target)
    return target / "moiety"


def source_names(library):
    """The files that a library was made of, as its symbol table names them."""
    table = run("readelf", "--wide", "--symbols", library)
    words = [line.split() for line in table.splitlines() if " FILE " in line]
    return {line[-1] for line in words if line[-1].endswith(".c")} - {
        "crtstuff.c"}


def exported(library):
    table = run("nm", "--dynamic", "--defined-only", "--extern-only", library)
    return {line.split(None, 1)[1] for line in table.splitlines()}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("wheel")


@pytest.fixture(scope="module")
def checkout(folder):
    """A copy, because builds leave things behind."""
    copy = folder / "checkout"
    for part in PARTS:
        shutil.copytree(CHECKOUT / part, copy / part, ignore=IGNORED,
                        symlinks=True)
    for name in FILES:
        (copy / name).parent.mkdir(exist_ok=True)
        shutil.copy(CHECKOUT / name, copy / name)
    return copy


@pytest.fixture(scope="module")
def wheel(folder, checkout):
    return build_wheel(checkout / "emm", folder / "plain")


@pytest.fixture(scope="module")
def repaired(folder, wheel):
    run(sys.executable, "-m", "auditwheel", "repair", "--wheel-dir",
        folder / "repaired", wheel)
    [found] = (folder / "repaired").glob("*.whl")
    return found


@pytest.fixture(scope="module")
def sdist(folder, checkout):
    run(sys.executable, "-c", "import sys; from setuptools.build_meta import "
        "build_sdist; build_sdist(sys.argv[1])", folder / "sdist",
        cwd=checkout / "emm")
    [archive] = (folder / "sdist").glob("*.tar.gz")
    return archive


def make_environment(folder, wheel):
    """Its interpreter; there is not even pip in it."""
    venv.create(folder, with_pip=False)
    python = folder / "bin" / "python"
    run(sys.executable, "-m", "pip", "--python", python, "install", "--quiet",
        "--no-index", "--no-deps", wheel)
    return python


@pytest.fixture(scope="module")
def empty(folder, repaired):
    return make_environment(folder / "empty", repaired)


@pytest.fixture(scope="module")
def furnished(folder, repaired):
    """Where NumPy and numba are too: those of this environment."""
    python = make_environment(folder / "furnished", repaired)
    [site] = (folder / "furnished").glob("lib/python*/site-packages")
    numpy = run(sys.executable, "-c", "import numpy; print(numpy.__file__)")
    (site / "others.pth").write_text(f"{Path(numpy.strip()).parents[1]}\n")
    return python


def test_each_adapter_has_an_extra(wheel):
    """With the oldest version that is supported."""
    [name] = [name for name in names_in(wheel) if name.endswith("/METADATA")]
    metadata = email.message_from_bytes(zipfile.ZipFile(wheel).read(name))
    assert set(metadata.get_all("Provides-Extra")) == {
        "numpy", "torch", "numba", "cupy", "cuda-core", "rmm", "dask",
        "onnxruntime", "report"}
    needed = metadata.get_all("Requires-Dist")
    assert needed and all(">=" in one and "extra ==" in one for one in needed)


def test_a_wheel_serves_every_python_from_3_10_on(wheel):
    assert wheel.name.endswith("-cp310-abi3-linux_x86_64.whl")
    assert wheel.name.split("-")[:2] == ["moiety", moiety.__version__]


def test_a_wheel_has_the_package_and_nothing_else(wheel):
    site = Path(moiety.__file__).parent
    wanted = {str(path.relative_to(site)) for path in site.rglob("*")
              if path.is_file() and path.parent.name != "__pycache__"}
    assert wanted >= MODULES | PROGRAMS | {LIBRARY, STANDIN, "py.typed"}
    assert {name for name in names_in(wheel) if name.startswith("moiety/")
            } == {f"moiety/{name}" for name in wanted}


def test_a_wheel_has_licences_and_the_manual(wheel):
    beside = {name.partition("/")[2]: name for name in names_in(wheel)
              if not name.startswith("moiety/")}
    content = zipfile.ZipFile(wheel).read
    assert content(beside["licenses/LICENSE"]) == (
        CHECKOUT / "LICENSE").read_bytes()
    assert b"Inria" in content(beside["licenses/licenses/hwloc.txt"])
    assert content(beside["data/share/man/man1/moiety.1"]) == (
        CHECKOUT / "docs/moiety.1").read_bytes()


def test_the_build_pins_no_setuptools():
    text = (CHECKOUT / "emm/pyproject.toml").read_text()
    [line] = [line for line in text.splitlines()
              if line.startswith("requires = ")]
    assert "setuptools>=" in line and "==" not in line


def test_its_library_is_the_one_that_bazel_builds(wheel, folder):
    ours = unpack(wheel, folder / "unpacked") / LIBRARY
    bazels = Path(moiety.__file__).parent / LIBRARY
    assert exported(ours) == exported(bazels) != set()
    assert source_names(ours) == source_names(bazels) != set()
    for name in ("SONAME", "NODELETE"):
        assert name in run("readelf", "--dynamic", ours)
    assert "libstdc++" not in run("readelf", "--dynamic", ours)


def test_its_modules_need_the_library_beside_them(wheel, folder):
    for name in MODULES:
        table = run("readelf", "--dynamic",
                    unpack(wheel, folder / "unpacked") / name)
        assert f"[{LIBRARY}]" in table and "[$ORIGIN]" in table
        assert "libpython" not in table


def test_a_repaired_wheel_carries_hwloc(repaired):
    assert "manylinux" in repaired.name
    assert any(name.startswith("moiety.libs/libhwloc-")
               for name in names_in(repaired))


def test_it_needs_no_numpy(empty):
    code = "import moiety; print(moiety.__version__)"
    assert run(empty, "-c", code) == moiety.__version__ + "\n"
    code = """
try:
    import moiety.numpy
except ModuleNotFoundError as error:
    print(error.name)
"""
    assert run(empty, "-c", code) == "numpy\n"


def test_it_brings_the_command(empty, wheel):
    [points] = [name for name in names_in(wheel)
                if name.endswith(".dist-info/entry_points.txt")]
    assert zipfile.ZipFile(wheel).read(points).decode().split("\n")[:2] == [
        "[console_scripts]", "moiety = moiety.__main__:main"]
    command = empty.parent / "moiety"
    assert run(command, "--version") == f"moiety {moiety.__version__}\n"
    assert "  node 0 " in run(command, "info")


@pytest.fixture
def trace(tmp_path):
    path = tmp_path / "some.mtrace"
    path.write_text("moiety-trace 1\nI source hand\nT 0 main\nS 0 legacy\n"
                    "a 10 0 0 1000 0\nf 10 0 0 0\nE 2\n")
    return path


def test_it_runs_on_the_standin_at_once(empty):
    code = "import moiety; print(moiety.Pool().alloc(100_000).nbytes)"
    for name in ("standin", "auto"):
        environment = {"MOIETY_DRIVER": name}
        if name == "auto":  # as another program would find the driver
            environment["LD_LIBRARY_PATH"] = run(
                empty, "-c", "from moiety import standin; "
                "print(standin.FOLDER)").strip()
        assert run(empty, "-c", code, env=environment) == "100000\n"


def test_it_replays_and_measures(empty, trace):
    command = empty.parent / "moiety"
    rows = run(command, "replay", "--driver=standin", "--json",
               "--subject=moiety,best-fit", trace)
    assert rows.count("\n") == 2
    rows = run(command, "bench", "--driver=standin", "--workload=pair",
               "--subject=moiety", "--threads=1", "--budget=60", "--repeats=1")
    assert '"workload"' in rows


def test_it_keeps_regions(empty, tmp_path):
    path = tmp_path / "keeper"
    command = empty.parent / "moiety"
    with subprocess.Popen([command, "serve", f"--socket={path}",
                           "--accept-memfd"]) as keeper:
        try:
            while not path.exists() and keeper.poll() is None:
                pass
            code = """
import sys, moiety.regions
with moiety.regions.connect(sys.argv[1]) as keeper:
    keeper.create("kept", {0: "2MiB"}).commit()
"""
            run(empty, "-c", code, path, env={"MOIETY_DRIVER": "standin"})
            assert "kept: committed" in run(command, "regions", path)
        finally:
            keeper.terminate()
    assert keeper.returncode == 0


def test_it_uses_no_library_of_the_system(empty, folder):
    code = """
import re
before = set(re.findall(r"/.*", open("/proc/self/maps").read()))
import moiety
print("\\n".join(set(re.findall(r"/.*", open("/proc/self/maps").read())) -
                before))
"""
    loaded = run(empty, "-c", code).split("\n")
    loaded = {path for path in loaded if ".so" in path}
    inside = {path for path in loaded
              if path.startswith(str(folder.resolve() / "empty"))}
    assert any("/libhwloc-" in path for path in inside)
    assert {Path(path).name for path in loaded - inside} <= {
        "libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0"}


def test_it_makes_arrays_where_numpy_is(furnished):
    code = """
import numba, numpy, moiety.numpy
with moiety.numpy.pinned() as host:
    array = numpy.ones(1 << 20)
    print(host.owns(array.ctypes.data), array.sum() == 1 << 20)
"""
    assert run(furnished, "-c", code) == "True True\n"


def test_it_makes_arrays_where_numpy_is_old(furnished):
    code = """
import sys
sys.path.insert(0, sys.argv[1])
import numpy, moiety.numpy
with moiety.numpy.pinned() as host:
    array = numpy.ones(1 << 20)
    print(numpy.__version__[0], host.owns(array.ctypes.data))
"""
    assert run(furnished, "-c", code, DEBIANS) == "1 True\n"


@pytest.fixture(scope="module")
def project(sdist, folder):
    """An sdist, unpacked where no checkout is."""
    with tarfile.open(sdist) as archive:
        archive.extractall(folder / "alone")
    [found] = (folder / "alone").iterdir()
    return found


def test_an_sdist_stands_alone_and_can_be_edited(project, folder, wheel):
    for name in ("LICENSE", "csrc/LICENSE", "moiety.1"):
        assert (project / name).is_file()
    venv.create(folder / "editable", with_pip=False)
    python = folder / "editable" / "bin" / "python"
    # By this environment's pip, as the other one lacks setuptools. The wheel's
    # test optimises.
    run(sys.executable, "-m", "pip", "install", "--quiet", "--no-index",
        "--no-build-isolation", "--no-deps", "--prefix", folder / "editable",
        "--editable", project, env={"CFLAGS": "-O0", "CXXFLAGS": "-O0"})
    code = ("import moiety; print(moiety.__file__); "
            "moiety.Pool().alloc(1)")
    found = run(python, "-B", "-c", code, env={"MOIETY_DRIVER": "standin"})
    assert found.strip() == str(project / "moiety/__init__.py")
    assert "best-fit" in run(python, "-m", "moiety", "replay", "--list")
    built = {str(path.relative_to(project)) for path in
             (project / "moiety").rglob("*") if path.is_file()
             and path.parent.name != "__pycache__"}
    assert built >= {
        name for name in names_in(wheel) if name.startswith("moiety/")}
    assert source_names(project / "moiety" / LIBRARY) == source_names(
        unpack(wheel, folder / "unpacked") / LIBRARY)


def refusal_of(checkout, **environment):
    with pytest.raises(AssertionError) as failure:
        run(sys.executable, "setup.py", "-q", "build_ext", cwd=checkout / "emm",
            env=environment)
    return str(failure.value)


def test_what_a_build_lacks_is_named(checkout):
    without = refusal_of(checkout, CC="no-such-cc")
    assert "no C compiler: no-such-cc" in without
    assert "build-essential" in without
    assert "build-essential" in refusal_of(checkout, CXX="no-such-cxx")
    without = refusal_of(checkout, CFLAGS="-include no_such_header.h")
    assert "no_such_header.h" in without


@pytest.mark.parametrize("header, package", [
    ("hwloc.h", "libhwloc-dev"), ("Python.h", "python3-dev")])
def test_a_header_that_a_build_lacks_is_named_with_its_package(
        checkout, tmp_path, header, package):
    (tmp_path / header).write_text("#error planted\n")
    without = refusal_of(checkout, CC=f"cc -I{tmp_path}")
    assert f"<{header}> cannot be compiled: install {package}" in without
