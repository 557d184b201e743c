# SPDX-License-Identifier: Apache-2.0
"""The package as users install it: a wheel from the checkout, one from an
sdist, and the repaired one in an environment where nothing else is."""

import os
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

import binade

CHECKOUT = Path(__file__).resolve().parents[2]
PARTS = ("emm", "numa", "pool")
IGNORED = shutil.ignore_patterns("build", "*.egg-info", "__pycache__")
MODULES = {"_native.abi3.so", "_nep49.abi3.so"}
LIBRARY = "libbinade.so.0"
# Where Debian 12 has NumPy 1.24, which bazelw installs.
DEBIANS = "/usr/lib/python3/dist-packages"


def run(*command, **options):
    environment = {**os.environ, **options.pop("env", {})}
    # Nothing but what is installed: neither the tree's package nor its driver.
    for name in ("PYTHONPATH", "LD_LIBRARY_PATH"):
        environment.pop(name, None)
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
    return target / "binade"


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
    for part in PARTS:
        shutil.copytree(CHECKOUT / part, folder / "checkout" / part,
                        ignore=IGNORED)
    shutil.copy(CHECKOUT / "LICENSE", folder / "checkout")
    return folder / "checkout"


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


def test_a_wheel_serves_every_python_from_3_10_on(wheel):
    assert wheel.name.endswith("-cp310-abi3-linux_x86_64.whl")
    assert wheel.name.split("-")[:2] == ["binade", binade.__version__]


def test_a_wheel_has_the_package_and_nothing_else(wheel):
    site = Path(binade.__file__).parent
    wanted = {str(path.relative_to(site)) for path in site.rglob("*")
              if path.is_file() and path.parent.name != "__pycache__"}
    assert wanted >= MODULES | {LIBRARY}
    assert {name for name in names_in(wheel) if ".dist-info/" not in name} == {
        f"binade/{name}" for name in wanted}


def test_its_library_is_the_one_that_bazel_builds(wheel, folder):
    ours = unpack(wheel, folder / "unpacked") / LIBRARY
    bazels = Path(binade.__file__).parent / LIBRARY
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
    assert any(name.startswith("binade.libs/libhwloc-")
               for name in names_in(repaired))


def test_it_needs_no_numpy(empty):
    code = "import binade; print(binade.__version__)"
    assert run(empty, "-c", code) == binade.__version__ + "\n"
    code = """
try:
    import binade.numpy
except ModuleNotFoundError as error:
    print(error.name)
"""
    assert run(empty, "-c", code) == "numpy\n"


def test_it_brings_the_command(empty, wheel):
    [points] = [name for name in names_in(wheel)
                if name.endswith(".dist-info/entry_points.txt")]
    assert zipfile.ZipFile(wheel).read(points).decode().split("\n")[:2] == [
        "[console_scripts]", "binade = binade.__main__:main"]
    command = empty.parent / "binade"
    assert run(command, "--version") == f"binade {binade.__version__}\n"
    assert "  node 0 " in run(command, "info")


def test_it_uses_no_library_of_the_system(empty, folder):
    code = """
import re
before = set(re.findall(r"/.*", open("/proc/self/maps").read()))
import binade
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
import numba, numpy, binade.numpy
with binade.numpy.pinned() as host:
    array = numpy.ones(1 << 20)
    print(host.owns(array.ctypes.data), array.sum() == 1 << 20)
"""
    assert run(furnished, "-c", code) == "True True\n"


def test_it_makes_arrays_where_numpy_is_old(furnished):
    code = """
import sys
sys.path.insert(0, sys.argv[1])
import numpy, binade.numpy
with binade.numpy.pinned() as host:
    array = numpy.ones(1 << 20)
    print(numpy.__version__[0], host.owns(array.ctypes.data))
"""
    assert run(furnished, "-c", code, DEBIANS) == "1 True\n"


def test_an_sdist_stands_alone(sdist, folder, wheel):
    with tarfile.open(sdist) as archive:
        archive.extractall(folder / "alone")
    [project] = (folder / "alone").iterdir()
    assert (project / "csrc" / "LICENSE").is_file()
    assert not (project / "csrc" / "pool" / "standin").exists()
    built = build_wheel(project, folder / "from_sdist")
    assert names_in(built) == names_in(wheel)
    ours = unpack(built, folder / "from_sdist_unpacked") / LIBRARY
    assert source_names(ours) == source_names(folder / "unpacked" / "binade" /
                                              LIBRARY)


def refusal_of(checkout, **environment):
    with pytest.raises(AssertionError) as failure:
        run(sys.executable, "setup.py", "-q", "build_ext", cwd=checkout / "emm",
            env=environment)
    return str(failure.value)


def test_what_a_build_lacks_is_named(checkout):
    assert "no C compiler: no-such-cc" in refusal_of(checkout, CC="no-such-cc")
    without = refusal_of(checkout, CFLAGS="-include no_such_header.h")
    assert "no_such_header.h" in without
