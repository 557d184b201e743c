#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The pages for users are in plain English.

    check_language.py ROOT

Of README.md, docs/*.md, docs/guides and docs/reference, outside of code and of quoted
`names`, but for docs/reference/c-reference.md, which is made from the headers:

1. A sentence has at most 25 words. Cells of tables are not counted.
2. No sentence or cell begins with "What", "Who" or the like as its subject, with
   its predicate ("Refused are"), or with "Where" for "if". Questions may.
3. No word of the list below, of which each has a plain one beside it.
4. A line of a paragraph ends at column 100, unless it is one long link.
5. A measured number (with ns, µs, GiB/s, requests or times) stands in a figure
   alone, which bench/performance makes: there it is dropped with the code that it
   measured. The text of figures is not read here.

Prints each breach and its place; exits with 1 if there is one.
"""

import re

from tree_files import files_of, run_check

READ = re.compile(
    r"^(README\.md|docs/(guides/|reference/)?(?!c-reference\.md$)[^/]+\.md)$")
MOST_WORDS = 25
MOST_COLUMNS = 100
PLAIN = {
    r"serv(?:e|es|ed|ing)(?: \w+)? again": "be reused",
    r"pass(?:es)? all through": "pass-through",
    r"way out of memory": "the steps before a failure",
    r"climb(?:s|ed|ing)?": "take the steps",
    r"hubs?": "heap",
    r"depots?": "heap",
    r"bursts?": "batch",
    r"lanes?": "cache",
    r"words of bits": "heap",
    r"index of runs|runs index": "heap",
    r"at the (?:most|least)": "at most, at least",
    r"whoever|whatever|whomever": "the noun",
    r"that which": "the noun",
    r"in vain": "without success",
    r"is told|are told|was told|were told": "is notified, is reported",
    r"tells?": "reports, returns",
    r"goes over": "overrides",
    r"had of": "taken from",
    r"to be had": "available",
    r"never ran": "untested",
    r"lent": "used",
    r"for good": "permanently",
    r"has none|have none|has not(?! \w+ed)": "does not support",
    r"goes by itself": "is destroyed",
    r"its own affair": "its own",
    r"mends?|mended": "fix",
    r"lax": "not strict",
    r"beside(?! each| the)": "next to, concurrently with",
    r"or else|to else": "otherwise",
}
DIALECT = [(re.compile(rf"\b(?:{words})\b", re.IGNORECASE), plain)
           for words, plain in PLAIN.items()]
HEADLESS = re.compile(
    r"^(What|Who|Whose|Whom|That which|All that|Where|Nor (have|has|do|does|is|are)"
    r"|(Worse|Better|Refused|Left out|Missing|Not [a-z]+) (is|are))\b")
MEASURED = re.compile(r"(?<![\w.])\d[\d.,]*\d?(?: ?(?:ns|µs|[GM]i?B/s|×)(?! ?\w)"
                      r"| (?:times|requests)\b)")
FIGURE, FIGURE_END = "<!-- figure: ", "<!-- end -->"
FENCE = re.compile(r"^\s*(```|~~~)")
MARK = re.compile(r"^\s*(?:[-*]|\d+\.)\s+")
STOP = re.compile(r"(?<=[.!?])[*_)\"']*\s+(?=[*_(\"'\[]*[A-Z`0-9])")


def plain_text(text):
    """Without the marks of Markdown; code is one word, a link its text."""
    text = re.sub(r"`+[^`]*`+", "`x`", text)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return re.sub(r"<[^>]*>|\*\*|__", "", text)


def parts_of(text):
    """(number of the line, kind, text) of headings, cells and paragraphs; each
    item of a list is a paragraph."""
    fence, begin, lines = None, 0, []

    def paragraph():
        if lines:
            yield begin, "text", " ".join(lines)
            lines.clear()

    for number, line in enumerate(text.splitlines(), 1):
        mark = FENCE.match(line)
        if mark and fence in (None, mark[1]):
            fence = None if fence else mark[1]
            yield from paragraph()
        elif fence or line.startswith("<!--"):
            continue
        elif not line.strip() or (line.startswith("    ") and not lines):
            yield from paragraph()
        elif line.startswith("#"):
            yield from paragraph()
            yield number, "heading", line.lstrip("# ")
        elif line.lstrip().startswith("|"):
            yield from paragraph()
            for cell in re.split(r"(?<!\\)\|", line)[1:-1]:
                yield number, "cell", cell.strip()
        else:
            if MARK.match(line):
                yield from paragraph()
                line = MARK.sub("", line)
            if not lines:
                begin = number
            lines.append(line.strip())
    yield from paragraph()


def without_figures(text):
    """As many lines; those of figures are empty."""
    lines, is_figure = [], False
    for line in text.splitlines():
        is_figure = (is_figure or line.startswith(FIGURE)) \
            and line != FIGURE_END
        lines.append("" if is_figure else line)
    return "\n".join(lines)


def sentences_of(text):
    return [part for part in STOP.split(plain_text(text)) if part.strip()]


def breaches_of(kind, sentence):
    words = len(re.findall(r"[\w`][^\s]*", sentence))
    if kind == "text" and words > MOST_WORDS:
        yield f"{words} words in a sentence: {sentence[:60]}"
    if HEADLESS.match(sentence.lstrip("*_(\"'")) and \
            not sentence.rstrip("*_)\"'").endswith("?"):
        yield f"a headless subject: {sentence[:60]}"
    measured = MEASURED.search(sentence)
    if measured:
        yield f"'{measured.group()}' is measured: it belongs into a figure"
    for words, plain in DIALECT:
        found = words.search(sentence)
        if found:
            yield f"'{found.group()}': say '{plain}'"


def long_lines(text):
    fence = False
    for number, line in enumerate(text.splitlines(), 1):
        if FENCE.match(line):
            fence = not fence
        elif not fence and len(line) > MOST_COLUMNS and " " in line.strip() \
                and not line.lstrip().startswith(("|", "<!--")) \
                and not line.startswith("    "):
            yield number, f"{len(line)} columns"


def breaches(text):
    found = [(number, words)
             for number, kind, part in parts_of(text)
             for sentence in sentences_of(part)
             for words in breaches_of(kind, sentence)]
    return sorted(found + list(long_lines(text)))


def check(root):
    read = [name for name in files_of(root) if READ.match(name)]
    wrong = [f"{name}:{number}: {words}" for name in read for number, words in
             breaches(without_figures((root / name).read_text(encoding="utf-8")))]
    return wrong, f"{len(read)} pages, no rule broken"


if __name__ == "__main__":
    run_check("language", __doc__, check)
