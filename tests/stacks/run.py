#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests moiety.cupy, moiety.cuda_core, moiety.rmm and moiety.Pools with the libraries
themselves, on a machine with a GPU and without Bazel.

usage: run.py [--site=FOLDER] [--without=LIBRARY...] [--out=FOLDER]

FOLDER has the package moiety as it was built (a wheel that is unpacked, or
//emm:site); without it the one that is installed is taken. It needs pytest, and
cuda.core, CuPy, RMM, numba-cuda unless they are named with --without. A test
that is skipped is a failure, but for those that want a second GPU on a machine
with one. What pytest says goes to --out too, and what calls cost to
latency.json there.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
EMM = HERE.parent / "emm"
# What each needs, beside the package.
FILES = {
    EMM / "stacks" / "pools_test.py": (),
    EMM / "stacks" / "cuda_core_test.py": ("cuda.core",),
    HERE / "cuda_core_gpu_test.py": ("cuda.core",),
    HERE / "cupy_gpu_test.py": ("cupy",),
    HERE / "rmm_gpu_test.py": ("rmm",),
    HERE / "together_gpu_test.py": ("cuda.core", "cupy", "numba"),
}
TIMEOUT_S = 180
ONE_GPU = "a second GPU"
STANDIN = "the stand-in"


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--site", type=pathlib.Path)
    parser.add_argument("--without", action="append", default=[])
    parser.add_argument("--out", type=pathlib.Path)
    return parser.parse_args()


def environment(site):
    path = [str(site.resolve())] if site else []
    path += filter(None, [str(EMM), os.environ.get("PYTHONPATH")])
    return os.environ | {"PYTHONPATH": os.pathsep.join(path)}


def run(command, settings, out):
    """Its exit status, and what it printed."""
    try:
        ended = subprocess.run(
            command, env=settings, text=True, timeout=TIMEOUT_S, check=False,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    except subprocess.TimeoutExpired as error:
        return 124, f"no end after {TIMEOUT_S} s\n{error.stdout or ''}"
    if out:
        (out / f"{pathlib.Path(command[-1]).stem}.log").write_text(ended.stdout)
    return ended.returncode, ended.stdout


def verdict_of(status, text):
    """None: it is as it should be."""
    skips = [line for line in text.splitlines() if line.startswith("SKIPPED")
             and ONE_GPU not in line and STANDIN not in line]
    if status:
        return f"pytest's status is {status}"
    return f"skipped: {skips[0]}" if skips else None


def run_file(path, settings, out):
    status, text = run([sys.executable, "-B", "-m", "pytest", "-q", "-rs",
                        "-p", "no:cacheprovider", str(path)], settings, out)
    verdict = verdict_of(status, text)
    count = re.findall(r"^\d+ .*\bin [\d.]+s.*$", text, re.MULTILINE)
    print(f"{path.name}: {verdict or 'well'}: {count[-1] if count else ''}",
          flush=True)
    if verdict:
        print(text)
    return verdict is None


def main():
    arguments = parse_arguments()
    settings = environment(arguments.site)
    if arguments.out:
        arguments.out.mkdir(parents=True, exist_ok=True)
    are_well = [run_file(path, settings, arguments.out)
                for path, needed in FILES.items()
                if not set(needed) & set(arguments.without)]
    if "cupy" not in arguments.without:
        status, text = run([sys.executable, "-B", str(HERE / "latency.py")],
                           settings, None)
        print(text)
        are_well.append(not status)
        if arguments.out:
            (arguments.out / "latency.json").write_text(text)
    return 0 if all(are_well) else 1


if __name__ == "__main__":
    sys.exit(main())
