# SPDX-License-Identifier: Apache-2.0
"""The reference has each function that the library exports, with text; and it
is not made where something is not documented."""

import os
import pathlib
import re
import shutil
import subprocess
import xml.etree.ElementTree as tree

import pytest

ROOT = pathlib.Path(os.environ["TEST_SRCDIR"], os.environ["TEST_WORKSPACE"])

SMALL = """/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A small header.
 */
#ifndef MOIETY_SMALL_H_
#define MOIETY_SMALL_H_

/** A constant, */
#define MOIETY_FIRST 1
#define MOIETY_SECOND 2

/** A struct. */
typedef struct moiety_small {
    /** Two fields. */
    int first;
    int second;
} moiety_small;

/**
 * Does something.
 *
 * @param what  What.
 * @param how   How.
 *
 * @return MOIETY_OK  Well.
 *
 * Ownership: yours.
 * Threads, Streams: any.
 */
int moiety_do(int what, int how);

#endif
"""


def make(root, out):
    return subprocess.run(
        ["bash", "docs/dev/reference/make_reference.sh", str(out)], cwd=root,
        capture_output=True, text=True, timeout=120, check=False)


def exported(version_map):
    """The names in a version script."""
    return re.findall(r"^\s+(moiety_\w+);", version_map, re.MULTILINE)


def has_text(member):
    return any("".join(member.find(kind).itertext()).strip()
               for kind in ("briefdescription", "detaileddescription"))


def described(folder):
    """The functions that the XML has with text."""
    return {member.findtext("name")
            for path in folder.glob("xml/*_8h.xml")
            for member in tree.parse(path).iter("memberdef")
            if member.get("kind") == "function" and has_text(member)}


def lacking(version_map, folder):
    return sorted(set(exported(version_map)) - described(folder))


@pytest.fixture
def root(tmp_path):
    """A checkout with one small header."""
    (tmp_path / "pool/include/moiety").mkdir(parents=True)
    (tmp_path / "pool/include/moiety/small.h").write_text(SMALL)
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    return tmp_path


def test_the_reference_has_each_function_of_the_library(tmp_path):
    version_map = (ROOT / "pool/install/libmoiety.map").read_text()
    done = make(ROOT, tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert len(exported(version_map)) > 50
    assert lacking(version_map, tmp_path) == []
    assert "moiety_pool_create" in (
        tmp_path / "html" / "pool_8h.html").read_text()
    assert lacking(version_map + "    moiety_gone;\n",
                   tmp_path) == ["moiety_gone"]


def test_a_small_header_is_made(root, tmp_path):
    done = make(root, tmp_path / "out")
    assert (done.returncode, done.stderr) == (0, "")
    assert described(tmp_path / "out") == {"moiety_do"}
    page = (tmp_path / "out/html/structmoiety__small.html").read_text()
    assert page.count("Two fields.") >= 2
    page = (tmp_path / "out/html/small_8h.html").read_text()
    for words in ("<dt>Ownership</dt>", "<dt>Threads, Streams</dt>",
                  '<td class="paramname">MOIETY_OK</td>'):
        assert words in page


# What is taken out of the header, and what is said then.
UNDOCUMENTED = [
    ("/** A constant, */\n", "MOIETY_FIRST"),
    ("    /** Two fields. */\n", "second"),
    ("/** A struct. */\n", "moiety_small"),
    (" * @param how   How.\n", "parameter 'how'"),
]


def remade(root, out, text):
    (root / "pool/include/moiety/small.h").write_text(text)
    return make(root, out)


def test_what_is_not_documented_is_named(root, tmp_path):
    text = SMALL
    for removed, _ in UNDOCUMENTED:
        assert removed in text
        text = text.replace(removed, "")
    done = remade(root, tmp_path / "out", text)
    assert done.returncode != 0
    for _, words in UNDOCUMENTED:
        assert words in done.stderr


def test_a_function_without_a_comment_is_named(root, tmp_path):
    comment = SMALL[SMALL.index("/**\n * Does"):SMALL.index("int moiety_do")]
    done = remade(root, tmp_path / "out", SMALL.replace(comment, ""))
    assert done.returncode != 0
    assert "moiety_do" in done.stderr


def test_a_header_without_a_page_is_named(root, tmp_path):
    text = SMALL.replace("/*\n * SPDX", "/* SPDX")
    done = remade(root, tmp_path / "out", text)
    assert done.returncode == 1
    assert "small.h: the header does not begin with a comment" in done.stderr


def test_a_folder_without_headers_is_refused(tmp_path):
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    done = make(tmp_path, tmp_path / "out")
    assert done.returncode == 1
    assert "there is no pool/include/moiety here" in done.stderr
