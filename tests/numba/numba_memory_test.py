# SPDX-License-Identifier: Apache-2.0
"""Runs numba's own memory tests on the stand-in driver, with numba's default
memory manager or with ours, and holds every test to the committed lists
(verdict.py).

usage: numba_memory_test.py --driver FILE --passed COUNT [--site FILE]
                            [--lists FOLDER]

FILE of --site is one of the package's, as it was built for PYTHONPATH: then the
memory manager is moiety.numba, and plugin_allowed.toml says what it changes. In
FOLDER, below this one, are the lists for another version of numba.
One process per module: a crash or a hang costs that module only, and each
process ends by tearing numba and the driver down.
"""

import argparse
import importlib.metadata
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import module_run
import verdict

HERE = pathlib.Path(__file__).parent
# A module takes seconds; this bounds a hang, it measures nothing.
MODULE_TIMEOUT_S = 1800


def read(name):
    return (HERE / name).read_text(encoding="utf-8")


def check_environment(lists):
    """The packages are those that requirements.txt pins, or SystemExit."""
    pins = re.findall(
        r"^([\w.-]+)==(\S+)", read(lists + "requirements.txt"), re.MULTILINE
    )
    for name, wanted in pins:
        try:
            found = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found = "missing"
        if found != wanted:
            raise SystemExit(
                f"{name} is {found}, {lists}requirements.txt: {wanted}")


def make_library_directory(driver, parent):
    """numba looks for both names of the driver; they must be one file, or each
    would be a driver with a state of its own."""
    directory = parent / "libraries"
    directory.mkdir()
    for name in ("libcuda.so.1", "libcuda.so"):
        (directory / name).symlink_to(driver.resolve())
    return directory


def child_environment(library_directory, site, home):
    """Nothing of the caller's but PATH: settings of numba, CUDA or Python
    would change what runs. The plugin finds the same driver as numba does."""
    manager = {
        "NUMBA_CUDA_MEMORY_MANAGER": "moiety.numba",
        "PYTHONPATH": str(site),
    }
    return (manager if site else {}) | {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(home),
        "TMPDIR": str(home),
        "LD_LIBRARY_PATH": str(library_directory),
        # Two, for the tests that want a second GPU; small, because some of
        # them take a tenth of what there is.
        "MOIETY_STANDIN_DEVICES": "2",
        "MOIETY_STANDIN_MEMORY": "512MiB",
    }


def counts_of(events):
    """What the module's process counted; zeros where it did not come so far."""
    ends = [event["detail"] for event in events if event["event"] == "end"]
    return ends[0] if ends else {"driver_calls": 0, "served": 0}


def how_it_ended(module, status, events, output):
    """None, or what is wrong with the end of the module's process."""
    if status == "timeout":
        return f"{module}: still running after {MODULE_TIMEOUT_S} s"
    if status != 0:
        return f"{module}: its process ended with status {status}"
    if counts_of(events)["driver_calls"] == 0:
        return f"{module}: made no call of the stand-in driver"
    # A finalizer's exception goes nowhere else.
    if re.search(rb"moiety[./](_n|numba)|Exception ignored", output):
        return f"{module}: the plugin failed"
    return None


def run_module(module, environment, scratch):
    """(events, complaint or None, output) of one module's run."""
    record = scratch / (module + ".jsonl")
    command = [sys.executable, "-B", HERE / "module_run.py", module, record]
    try:
        done = subprocess.run(
            command, env=environment, cwd=scratch, timeout=MODULE_TIMEOUT_S,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, check=False,
        )
        status, output = done.returncode, done.stdout
    except subprocess.TimeoutExpired as timeout:
        status, output = "timeout", timeout.stdout or b""
    record.touch()
    lines = record.read_text(encoding="utf-8").splitlines()
    events = [json.loads(line) for line in lines]
    complaint = how_it_ended(module, status, events, output)
    return events, complaint, output.decode(errors="replace")


def run_all(modules, environment, scratch):
    """(outcomes of all tests, complaints about processes, blocks served)."""
    outcomes, complaints, served = {}, [], 0
    for module in modules:
        events, complaint, output = run_module(module, environment, scratch)
        found = verdict.outcomes_of(events)
        outcomes.update(found)
        served += counts_of(events)["served"]
        count = sum(one.outcome == "pass" for one in found.values())
        print(f"{module}: {count} of {len(found)} passed", flush=True)
        if complaint:
            complaints.append(f"{complaint}\n{output[-4000:]}")
    return outcomes, complaints, served


def report(expected, outcomes, complaints, passed_wanted):
    """Prints every complaint; True when there is none."""
    for test, complaint in verdict.judge(expected, outcomes):
        details = outcomes[test].details if test in outcomes else []
        complaints.append("\n".join([complaint, *details]))
    counts = {
        name: sum(one.outcome == name for one in outcomes.values())
        for name in ("pass", "fail", "skip")
    }
    if counts["pass"] != passed_wanted:
        complaints.append(
            f"{counts['pass']} tests passed, expected exactly {passed_wanted}"
        )
    for complaint in complaints:
        print(f"\nFAILED {complaint}")
    print(
        f"\n{len(outcomes)} of numba's tests ran: {counts['pass']} passed, "
        f"{counts['fail']} failed, {counts['skip']} skipped; "
        f"{len(complaints)} complaints"
    )
    return not complaints


def parse_arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--driver", type=pathlib.Path, required=True)
    parser.add_argument("--passed", type=int, required=True)
    parser.add_argument("--site", type=pathlib.Path)
    parser.add_argument("--lists", default="")
    return parser.parse_args()


def expectations(lists, with_plugin):
    expected = verdict.expectations(read(lists + "passing.txt"),
                                    read(lists + "allowed.toml"))
    if with_plugin and not lists:
        expected.update(verdict.read_allowed(read("plugin_allowed.toml")))
    return expected


def main():
    arguments = parse_arguments()
    driver = arguments.driver
    site = arguments.site and arguments.site.absolute().parent.parent
    lists = arguments.lists and arguments.lists + "/"
    check_environment(lists)
    module_run.open_standin(str(driver.resolve()))
    modules = verdict.read_lines(read("modules.txt"))
    scratch = pathlib.Path(tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR")))
    try:
        directory = make_library_directory(driver, scratch)
        environment = child_environment(directory, site, scratch)
        outcomes, complaints, served = run_all(modules, environment, scratch)
    finally:
        shutil.rmtree(scratch)
    if site:
        print(f"the pools served {served} blocks")
    if site and served == 0:
        complaints.append("the pools served nothing")
    return report(expectations(lists, site), outcomes, complaints,
                  arguments.passed)


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
