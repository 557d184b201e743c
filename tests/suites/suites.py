# SPDX-License-Identifier: Apache-2.0
"""Runs the tests of numba-cuda, NumPy, CuPy, PyTorch, RMM or cuda.core with
their own memory and with ours, and says what differs (comparison.py). For a
machine with a GPU, without Bazel.

usage: suites.py numba|numpy|cupy|torch|torch-ipc|torch-pinned|rmm|cuda-core
                 --out=FOLDER [--workers=N] [--limit-s=S] [--target=TARGET...]

It needs pytest, pytest-xdist and pytest-timeout, and the package moiety on
PYTHONPATH. Tests that are in no package are in the package's repository, at the
tag of the version that is installed; a variable names their folder:

    CUPY_TESTS       tests, of https://github.com/cupy/cupy at v14.2.0
    TORCH_TESTS      test (they need expecttest)
    RMM_TESTS        python/rmm/rmm/tests, of https://github.com/rapidsai/rmm at
                     v26.06.00 (they need numba-cuda)
    CUDA_CORE_TESTS  cuda_core/tests, of https://github.com/NVIDIA/cuda-python at
                     cuda-core-v1.2.2 (they need cuda_python_test_helpers)

Into FOLDER go SUITE.md, SUITE.json, and what pytest said. The whole ends after
S seconds: what is still running then is killed, and counted as not run.
TARGETs, arguments of pytest, replace the suite's.
"""

import argparse
import dataclasses
import importlib.metadata
import importlib.util
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import comparison

HERE = pathlib.Path(__file__).resolve().parent
TESTS = HERE.parent
TIMES_AGAIN = 3
# A test takes seconds. Longer is a hang, and costs its worker.
TEST_TIMEOUT_S = 120
# Of the limit, for each of the two whole runs: one that hangs leaves the other
# its time.
WHOLE_SHARE = 0.4


def folder_of(package):
    """Where a package is, without importing it."""
    return pathlib.Path(importlib.util.find_spec(package).origin).parent


def skips_of_numba():
    """The tests that numba skips with every manager but its own, as pytest
    names them."""
    sys.path.insert(0, str(TESTS / "numba"))
    import verdict

    text = (TESTS / "numba" / "plugin_allowed.toml").read_text()
    names = [test.rsplit(".", 2) for test, _ in verdict.read_allowed(text)]
    return {f"{module.replace('.', '/')}.py::{case}::{test}"
            for module, case, test in names}


@dataclasses.dataclass
class Suite:
    """Where it is, and what makes it run with our memory."""

    package: str
    root: str
    targets: tuple
    plugin: pathlib.Path
    path: tuple
    options: tuple
    environments: tuple
    versions_of: tuple
    allowed_skips: frozenset


def numba_suite():
    return Suite(
        "numba_cuda", "numba/cuda/tests",
        ("numba.cuda.tests.cudadrv", "numba.cuda.tests.cudapy"),
        HERE / "numba_tests.py", (HERE / "host",),
        ("--pyargs", "-o", "consider_namespace_packages=true",
         "--dist", "loadscope"),
        ({}, {"NUMBA_CUDA_MEMORY_MANAGER": "moiety.numba"}),
        ("numba", "numba-cuda", "cuda-bindings", "cuda-core", "numpy"),
        frozenset(skips_of_numba()))


def numpy_suite():
    folder = folder_of("numpy")
    return Suite(
        "numpy", "", (str(folder),), TESTS / "emm" / "numpy_plugin.py", (),
        ("-m", "not slow", "--dist", "load"),
        ({"MOIETY_NUMPY_HANDLER": "default"},
         {"MOIETY_NUMPY_HANDLER": "pinned"}),
        ("numpy",), frozenset())


def cupy_suite():
    root = pathlib.Path(os.environ["CUPY_TESTS"]).resolve()
    return Suite(
        "cupy", str(root), tuple(str(root / "cupy_tests" / one) for one in (
            "cuda_tests/test_memory.py", "cuda_tests/test_pinned_memory.py",
            "cuda_tests/test_stream.py", "cuda_tests/test_graph.py",
            "cuda_tests/memory_hooks_tests", "core_tests/test_ndarray.py",
            "core_tests/test_ndarray_copy_and_view.py",
            "core_tests/test_ndarray_cuda_array_interface.py",
            "core_tests/test_dlpack.py", "creation_tests",
            "manipulation_tests/test_join.py")),
        HERE / "cupy_memory.py", (), ("-m", "not slow", "--dist", "load"),
        ({"MOIETY_CUPY_MEMORY": "theirs"}, {"MOIETY_CUPY_MEMORY": "ours"}),
        ("cupy-cuda13x", "cupy-cuda12x", "numpy"), frozenset())


def torch_suite(targets, ours, options=()):
    root = pathlib.Path(os.environ["TORCH_TESTS"]).resolve()
    return Suite(
        "torch", str(root), tuple(str(root / one) for one in targets),
        HERE / "torch_memory.py", (HERE / "torch_host",),
        (*options, "--dist", "load"),
        ({"MOIETY_TORCH_MEMORY": "theirs"},
         {"MOIETY_TORCH_MEMORY": "ours", **ours}),
        ("torch", "numpy"), frozenset())


def rmm_suite():
    root = pathlib.Path(os.environ["RMM_TESTS"]).resolve()
    return Suite(
        "rmm", str(root), (str(root),), HERE / "rmm_memory.py", (),
        ("--dist", "load"),
        ({"MOIETY_RMM_MEMORY": "theirs"}, {"MOIETY_RMM_MEMORY": "ours"}),
        ("rmm-cu13", "rmm-cu12", "numba-cuda", "cuda-bindings", "numpy"),
        frozenset())


def cuda_core_suite():
    root = pathlib.Path(os.environ["CUDA_CORE_TESTS"]).resolve()
    return Suite(
        "cuda.core", str(root), tuple(str(root / one) for one in (
            "test_memory.py", "memory", "test_device.py", "test_utils.py",
            "test_utils_dlpack.py", "test_stream.py", "test_event.py",
            "test_launcher.py", "test_module.py", "test_tensor_map.py",
            "test_texture_surface.py", "test_green_context.py",
            "test_object_protocols.py", "graph")),
        HERE / "cuda_core_memory.py", (), ("--dist", "load"),
        ({"MOIETY_CUDA_CORE_MEMORY": "theirs"},
         {"MOIETY_CUDA_CORE_MEMORY": "ours"}),
        ("cuda-core", "cuda-bindings", "numpy"), frozenset())


SUITES = {
    "numba": numba_suite, "numpy": numpy_suite, "cupy": cupy_suite,
    "torch": lambda: torch_suite(
        ("test_cuda.py", "test_cuda_trace.py", "test_cuda_multigpu.py",
         "inductor/test_cudagraph_trees.py"), {}),
    "torch-ipc": lambda: torch_suite(
        ("test_multiprocessing.py", "test_dataloader.py"),
        {"MOIETY_TORCH_IPC": "1"}),
    "torch-pinned": lambda: torch_suite(
        ("test_dataloader.py", "test_cuda.py", "test_torch.py"),
        {"MOIETY_TORCH_IPC": "1", "MOIETY_TORCH_PINNED": "1"},
        ("-k", "pin or test_dataloader")),
    "rmm": rmm_suite, "cuda-core": cuda_core_suite,
}


def run_bounded(command, environment, log, deadline):
    """Runs it until it ends or the deadline comes; then nothing of it is
    left."""
    with open(log, "wb") as out, subprocess.Popen(
            command, env=environment, cwd=log.parent, stdin=subprocess.DEVNULL,
            stdout=out, stderr=subprocess.STDOUT,
            start_new_session=True) as process:
        try:
            process.wait(max(deadline - time.monotonic(), 0))
        except subprocess.TimeoutExpired:
            print(f"  {log.stem}: killed at the limit", flush=True)
        finally:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass


class Runner:
    """Runs a suite, with its own memory (0) or with ours (1)."""

    def __init__(self, suite, arguments):
        self.suite = suite
        self.name = arguments.suite
        self.out = arguments.out.resolve()
        self.workers = arguments.workers
        self.limit_s = arguments.limit_s
        self.deadline = time.monotonic() + arguments.limit_s

    def environment(self, which, outcomes):
        before = os.environ.get("PYTHONPATH")
        path = [HERE, self.suite.plugin.parent, *self.suite.path]
        return {
            **os.environ, **self.suite.environments[which],
            "MOIETY_OUTCOMES": str(outcomes),
            # meson and ninja, for tests that build a module.
            "PATH": f"{pathlib.Path(sys.executable).parent}{os.pathsep}"
                    f"{os.environ['PATH']}",
            "PYTHONPATH": os.pathsep.join(
                [*map(str, path), *([before] if before else [])]),
        }

    def run_whole(self, which, targets):
        return self.run(which, "whole", targets, min(
            self.deadline, time.monotonic() + WHOLE_SHARE * self.limit_s))

    def run(self, which, label, targets, deadline):
        """The comparison.Run, of whatever was done by the deadline."""
        begun = time.monotonic()
        label = f"{self.name}-{label}-{('own', 'ours')[which]}"
        outcomes = self.out / f"{label}.jsonl"
        outcomes.touch()
        command = [
            sys.executable, "-B", "-m", "pytest", "-q", "--tb=short",
            "-c", os.devnull, "--rootdir",
            folder_of(self.suite.package) / self.suite.root,
            "-p", "no:cacheprovider", "-p", "recording",
            "-p", self.suite.plugin.stem, "--continue-on-collection-errors",
            "-n", self.workers, "--timeout", TEST_TIMEOUT_S,
            # From a hang below Python nothing else gets out.
            "--timeout-method", "thread", *self.suite.options, *targets]
        run_bounded([str(word) for word in command],
                    self.environment(which, outcomes),
                    self.out / f"{label}.log", deadline)
        run = comparison.read(outcomes.read_text(encoding="utf-8").splitlines())
        print(f"  {label}: {len(run.having('passed'))} passed, "
              f"{len(run.having('failed'))} failed, "
              f"{len(run.having('skipped'))} skipped, pytest's status "
              f"{run.end}, {time.monotonic() - begun:.0f} s", flush=True)
        return run

    def run_again(self, tests):
        """Pairs of Runs of these alone, as many as begin before the deadline."""
        root = folder_of(self.suite.package) / self.suite.root
        targets = [str(root / test) for test in sorted(tests)]
        pairs = []
        while tests and len(pairs) < TIMES_AGAIN and \
                time.monotonic() < self.deadline:
            label = f"again{len(pairs)}"
            pairs.append(tuple(self.run(which, label, targets, self.deadline)
                               for which in (0, 1)))
        return pairs


def versions(names):
    found = {"python": sys.version.split()[0]}
    for name in (*names, "moiety", "pytest", "pytest-xdist"):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "not installed by pip"
    return found


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("suite", choices=SUITES)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--workers", type=int, default=14)
    parser.add_argument("--limit-s", type=float, default=540)
    parser.add_argument("--target", action="append")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    arguments.out.mkdir(parents=True, exist_ok=True)
    suite = SUITES[arguments.suite]()
    about = versions(suite.versions_of)
    print(arguments.suite, *(f"{name} {version}"
                             for name, version in about.items()))
    runner = Runner(suite, arguments)
    targets = arguments.target or suite.targets
    own, ours = (runner.run_whole(which, targets) for which in (0, 1))
    failed, _, _ = comparison.only_ours(own, ours)
    verdict = comparison.judge(own, ours, runner.run_again(failed),
                               suite.allowed_skips)
    text = "\n".join(comparison.markdown(arguments.suite, verdict))
    (arguments.out / f"{arguments.suite}.md").write_text(text + "\n")
    (arguments.out / f"{arguments.suite}.json").write_text(json.dumps(
        {"versions": about, **dataclasses.asdict(verdict)}))
    print(text)
    return not verdict.complaints()


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
