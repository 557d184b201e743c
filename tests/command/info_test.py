# SPDX-License-Identifier: Apache-2.0
"""moiety info."""

import json

import moiety
from starting import run


def test_text_names_what_there_is():
    ended = run("info")
    assert (ended.returncode, ended.stderr) == (0, "")
    for part in (f"moiety {moiety.__version__}", "python 3.", "numpy ",
                 "MOIETY_CONF: not set", "device 0: Moiety stand-in device, ",
                 "mapped memory (VMM)", "; mapped in pieces of 2048 KiB\n",
                 "driver: ", "node 0 "):
        assert part in ended.stdout, part


def test_json_is_the_same():
    ended = run("info", "--json", MOIETY_CONF="limit:1G")
    about = json.loads(ended.stdout)
    assert about["conf"] == "limit:1G" and about["devices_error"] is None
    assert about["devices"][0]["is_standin"] is True
    assert "mapped memory (VMM)" in about["devices"][0]["features"]
    assert about["devices"][0]["vmm_granularity_bytes"] == 2 << 20
    [gpu, *_] = about["topology"]["gpus"]
    assert about["devices"][0]["bus_id"] == gpu["bus_id"]
    assert about["topology"]["nodes"][0]["node"] == 0


def test_without_a_driver_it_says_why():
    ended = run("info", MOIETY_DRIVER="/nowhere/libcuda.so.1")
    assert ended.returncode == 0 and "no device: " in ended.stdout
    assert "/nowhere/libcuda.so.1" in ended.stdout and "node 0 " in ended.stdout
