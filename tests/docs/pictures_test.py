# SPDX-License-Identifier: Apache-2.0
"""The pictures of docs/how-it-works.md are as their script makes them."""

import os
import pathlib
import subprocess
import sys
from xml.etree import ElementTree

ROOT = pathlib.Path(os.environ["TEST_SRCDIR"], os.environ["TEST_WORKSPACE"])
SCRIPT = ROOT / "docs/dev/reference/pictures.py"


def run(*words):
    done = subprocess.run([sys.executable, str(SCRIPT), *map(str, words)],
                          capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


def test_the_pictures_are_made():
    assert run("--check", ROOT) == (0, "")


def test_a_picture_changed_by_hand_or_missing_is_found(tmp_path):
    folder = tmp_path / "docs/pictures"
    folder.mkdir(parents=True)
    assert run(tmp_path) == (0, "")
    assert run("--check", tmp_path) == (0, "")
    hit = folder / "hit.svg"
    hit.write_text(hit.read_text().replace("no lock", "a lock"))
    (folder / "miss.svg").unlink()
    code, words = run("--check", tmp_path)
    assert (code, words.count("is not as it is made")) == (1, 2)


def test_each_is_well_formed_and_fits_a_narrow_screen():
    paths = sorted((ROOT / "docs/pictures").glob("*.svg"))
    assert len(paths) == 4
    for path in paths:
        root = ElementTree.fromstring(path.read_text())
        assert int(root.get("width")) <= 390
        for node in root.iter():
            if node.get("x"):
                right = float(node.get("x")) + float(node.get("width") or 0)
                assert right <= 390, path.name
