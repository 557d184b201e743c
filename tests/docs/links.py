# SPDX-License-Identifier: Apache-2.0
"""Where the links of Markdown pages lead, as far as that is in a checkout.

usage: links.py FOLDER

Looks at every *.md in FOLDER that git does not ignore. A relative link leads to
a file or a folder there, and its anchor to a heading of that page. Prints each
that does not, and fails if there is any. Links to other machines are not
followed.
"""

import pathlib
import re
import subprocess
import sys
import urllib.parse

LINK = re.compile(r"\[(?:[^\]\\]|\\.)*\]\(<?([^()\s>]*)>?(?:\s+\"[^\"]*\")?\)")
HEADING = re.compile(r"^#{1,6}\s+(.*?)\s*#*$")
FENCE = re.compile(r"^\s*(```|~~~)")
ELSEWHERE = re.compile(r"^[a-z][a-z0-9+.-]*:")


def prose(text):
    """The text with empty lines for those of fenced blocks."""
    fence, kept = None, []
    for line in text.splitlines():
        mark = FENCE.match(line)
        if mark and fence in (None, mark[1]):
            fence = None if fence else mark[1]
            line = ""
        kept.append("" if fence else line)
    return "\n".join(kept)


def anchor_of(heading):
    """As GitHub makes it of a heading's text."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    text = re.sub(r"[^\w\- ]", "", text.lower())
    return text.replace(" ", "-")


def anchors(text):
    found = {}
    for line in prose(text).split("\n"):
        heading = HEADING.match(line)
        if heading:
            anchor = anchor_of(heading[1])
            again = found.get(anchor, 0)
            found[anchor] = again + 1
            if again:
                found[f"{anchor}-{again}"] = 1
    return set(found)


def links(text):
    """(number of the line, target), but for those in `code`."""
    text = re.sub(r"`[^`\n]*`", "``", prose(text))
    for link in LINK.finditer(text):
        yield text.count("\n", 0, link.start(1)) + 1, link[1]


def wrong(root, page, target):
    """What is wrong with a link on a page; None if nothing is."""
    if not target:
        return "leads nowhere"
    if ELSEWHERE.match(target):
        return None
    path, _, anchor = urllib.parse.unquote(target).partition("#")
    to = (page.parent / path) if path else page
    if not to.resolve().is_relative_to(root.resolve()):
        return "leads out of the repository"
    if not to.exists():
        return "is not there"
    if anchor and (to.suffix != ".md"
                   or anchor not in anchors(to.read_text(encoding="utf-8"))):
        return "has no such heading"
    return None


def complaints(root, pages):
    return [f"{page.relative_to(root)}:{number}: {target} {why}"
            for page in pages
            for number, target in links(page.read_text(encoding="utf-8"))
            if (why := wrong(root, page, target))]


def pages_of(root):
    """Every page that git knows or would take; where there is no git, all that
    are not in a folder of tools."""
    listed = subprocess.run(
        ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others",
         "--exclude-standard", "--", "*.md"],
        capture_output=True, text=True, check=False)
    if listed.returncode == 0:
        found = {root / name for name in listed.stdout.split("\0") if name}
    else:
        found = {path for path in root.rglob("*.md")
                 if not any(part.startswith((".", "bazel-"))
                            for part in path.relative_to(root).parts)}
    return sorted(path for path in found if path.exists())


def main(root):
    root = pathlib.Path(root)
    pages = pages_of(root)
    if not pages:
        print(f"links: no page in {root}", file=sys.stderr)
        return 1
    found = complaints(root, pages)
    for line in found:
        print(f"links: {line}", file=sys.stderr)
    if not found:
        print(f"links: {len(pages)} pages, no link is broken")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
