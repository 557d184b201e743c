# SPDX-License-Identifier: Apache-2.0
"""The quick start and the guides do what they say, on the stand-in driver.
Pages that do not are found out. Guides for one kind of program are short."""

import os
import pathlib
import sys

import pytest

ROOT = pathlib.Path(os.environ["TEST_SRCDIR"], os.environ["TEST_WORKSPACE"])
sys.path.insert(0, str(ROOT / "tests" / "docs"))

import blocks  # noqa: E402

# What a reader's commands are here: the build was made already, and the
# packages are on PYTHONPATH, so that an environment is an empty one. Warnings
# are errors.
COMMANDS = {
    "bazelw": """[ "$1 $2 $3" = "run //:install --" ] || exit 9
shift 3
cd {root}
exec ./install "$@"
""",
    "moiety": """exec python3 -m moiety "$@"
""",
    "pip": """[[ "$*" =~ ^install\\ \\./emm(\\[(numba|numpy)\\])?$ ]]
""",
    "python3": """[ "${{1:-}} ${{2:-}}" != "-m venv" ] || {{
    mkdir -p "$3/bin"
    exec touch "$3/bin/activate"
}}
exec {python} "$@"
""",
    "cc": """exec /usr/bin/cc -std=c11 -D_GNU_SOURCE -Wall -Wextra -Werror "$@"
""",
}


@pytest.fixture
def do(tmp_path):
    """Does what a page says, and tells how much that was."""
    commands = tmp_path / "commands"
    folder = tmp_path / "checkout"
    commands.mkdir()
    folder.mkdir()
    for name, text in COMMANDS.items():
        path = commands / name
        path.write_text("#!/bin/bash\n" + text.format(
            root=ROOT, python=sys.executable))
        path.chmod(0o755)
    (folder / "bazelw").symlink_to(commands / "bazelw")
    (folder / "examples").symlink_to(ROOT / "examples")
    (folder / "emm").mkdir()
    (folder / "emm/examples").symlink_to(ROOT / "emm/examples")
    path = f"{commands}:{pathlib.Path(sys.executable).parent}:/usr/bin:/bin"
    environment = blocks.clean_environment(
        PATH=path, HOME=str(tmp_path), PYTHONPATH=os.environ["PYTHONPATH"],
        PYTHONDONTWRITEBYTECODE="1")

    def do_page(page):
        return blocks.do(page, folder, environment)

    return do_page


@pytest.mark.parametrize("name, files, commands", [
    ("quickstart", 2, 5),
    ("guides/c-server", 1, 4),
    ("guides/data-loader", 0, 4),
    ("guides/numba-cupy", 0, 3),
    ("guides/python", 3, 4),
])
def test_a_page_does_what_it_says(do, name, files, commands):
    page = (ROOT / "docs" / f"{name}.md").read_text()
    assert do(page) == (files, commands)


def test_the_mistake_of_the_page_is_found(do):
    page = (ROOT / "docs/debugging.md").read_text()
    page = page.split("A program that frees a block twice:")[1]
    assert do(page_of(INSTALL, STANDIN) + page.split("| key |")[0]) == (1, 3)


def test_the_readme_has_python_that_works(do):
    readme = (ROOT / "README.md").read_text()
    text = readme.split("```python\n")[1].split("```")[0]
    program = ("python a.py", "import moiety\nstream = moiety.LEGACY\n" + text +
               "print(pool.used_bytes)\n")
    run = ("sh", "MOIETY_DRIVER=standin python3 a.py\n")
    assert do(page_of(program, run, ("output", "0\n"))) == (1, 1)


@pytest.mark.parametrize("name", [
    "c-server", "data-loader", "numba-cupy", "pytorch"])
def test_a_guide_is_short(name):
    page = (ROOT / "docs/guides" / f"{name}.md").read_text()
    assert 60 < page.count("\n") <= 120


def page_of(*blocks):
    return "".join(f"```{head}\n{text}```\n" for head, text in blocks)


INSTALL = ("sh", './bazelw run //:install -- --prefix "$HOME/b" >install.log\n'
                 'export PKG_CONFIG_PATH="$HOME/b/lib/pkgconfig"\n')
STANDIN = ("sh", 'export LD_LIBRARY_PATH="$HOME/b/lib" MOIETY_DRIVER=standin\n')
COMPILE = ("sh", "cc a.c $(pkg-config --cflags --libs moiety) -o a\n")


@pytest.mark.parametrize("page, words", [
    (page_of(INSTALL, ("c a.c", "int main(void) { return x; }\n"), COMPILE),
     "line 8: exit status 1"),
    (page_of(INSTALL, ("c a.c", "#include <moiety/moiety.h>\n"
                                "int main(void) { moiety_alloc(0); }\n"),
             COMPILE), "too few arguments"),
    (page_of(INSTALL, ("c a.c", "#include <moiety/moiety.h>\n"
                                "int main(void) { moiety_gone(); }\n"),
             COMPILE), "moiety_gone"),
], ids=["no C", "a wrong call", "no such function"])
def test_a_broken_block_of_c_is_found(do, page, words):
    with pytest.raises(blocks.Broken) as caught:
        do(page)
    assert words in str(caught.value)


@pytest.mark.parametrize("page, words", [
    (page_of(("python a.py", "import moiety\nmoiety.Pol()\n"),
             ("sh", "python3 a.py\n")), "has no attribute 'Pol'"),
    (page_of(("python a.py", "print(1)\n"), ("sh", "python3 a.py\n"),
             ("output", "2\n")), "line 7: the page shows\n2\n"),
    (page_of(("sh", "false | true; false; true\n")), "line 1: exit status 1"),
    (page_of(("sh", "true\n"), ("sh", "exit 3\n")), "line 4: exit status 3"),
    (page_of(("python", "print(1)\n")), "line 1: a program without a name"),
    (page_of(("python a.py", "print(1)\n")), "line 1: nothing uses a.py"),
    (page_of(("output", "1\n")), "line 1: output of no commands"),
    (page_of(("c a.h", "\n"), ("c a.h", "\n"), ("sh", "test -e a.h\n")),
     "a.h a second time"),
    ("```sh\ntrue\n", "line 1: the block has no end"),
], ids=["a wrong call", "other output", "a failing command",
        "a failing second block", "no name", "nothing uses it", "no commands",
        "twice", "no end"])
def test_a_broken_page_is_found(do, page, words):
    with pytest.raises(blocks.Broken) as caught:
        do(page)
    assert words in str(caught.value)
