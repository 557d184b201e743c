# SPDX-License-Identifier: Apache-2.0
"""Makes docs/reference/c-reference.md: all of the C headers on one page.

usage: c_reference.py [--check] [ROOT]

An undocumented header, function, type, field or constant is an error, and so is a
parameter of a function that documents others, unless it is the object that the function
is about.

Each header is a section, with the comment at its top; behind it stand its constants,
types and functions, with their own comments. Parameters and statuses become tables.
"""

import pathlib
import re
import sys

LICENCE = "SPDX-License-Identifier: Apache-2.0"
HEADERS, PAGE = "pool/include/moiety", "docs/reference/c-reference.md"
FIRST = ("pool.h", "block.h", "stream.h", "host.h", "status.h", "types.h", "stats.h")
ESSENTIAL, INCLUDED = "moiety.h", re.compile(r'#include "moiety/([^"]+)"')
COMMENT = r"/\*\*(?P<comment>(?:[^*]|\*(?!/))*)\*/\s*"
FUNCTION = r"(?P<function>MOIETY_API\b[^;{]*;)"
TYPE = (r"(?P<type>typedef (?:struct|enum) \w+ \{.*?\n\} \w+;|typedef [^;{]*;)")
CONSTANT = r"(?P<constant>(?:#define MOIETY_[^\n]*(?:\\\n[^\n]*)*\n)+)"
ITEM = re.compile(rf"(?:{COMMENT})?(?:{FUNCTION}|{TYPE}|{CONSTANT})", re.DOTALL)
TOP = re.compile(r"\A/\*(?P<comment>.*?)\*/", re.DOTALL)
TAG = re.compile(r"^(?:@(?P<tag>param|return)\s+|(?P<aspect>(?:Ownership|Threads|"
                 r"Streams|Context)(?:, (?:Threads|Streams|Context))*):\s*)")
# Objects that a function is about: the rules in pool.h say what they are.
OBJECTS = {"pool", "host", "arena", "tenant", "scope"}
MEMBER = re.compile(r"^    (?:/\*\*(?P<comment>.*?)\*/\s*)?(?P<code>[^/\n][^;,]*[;,]?)"
                    r"\s*$", re.DOTALL | re.MULTILINE)


def lines_of(comment):
    return [re.sub(r"^\s*\*? ?", "", line).rstrip()
            for line in comment.strip("*\n ").split("\n")]


def parts_of(comment):
    """Paragraphs, and [(tag, text)] of what is said by tags."""
    paragraphs, tags, text = [], [], []
    into = paragraphs

    def end():
        if text:
            into.append(" ".join(text)) if into is paragraphs else \
                tags.append((tag, " ".join(text)))
        text.clear()

    tag = None
    for line in lines_of(comment):
        found = TAG.match(line)
        if found:
            end()
            into, tag = tags, found["tag"] or found["aspect"]
            line = line[found.end():]
        elif not line:
            end()
            if into is tags:
                into, tag = paragraphs, None
            continue
        text.append(line.strip())
    end()
    return paragraphs, tags


def cell(text):
    return re.sub(r"\s+", " ", text).replace("|", "\\|")


def plain(text):
    """As Markdown takes it: stars and angles are no marks."""
    return re.sub(r"(?<!`)([*<>_])(?!`)",
                  lambda found: "\\" + found[1] if found[1] in "*<" else found[1],
                  text)


def split_name(tag, text):
    """("`out`", what of it): of a parameter or a status."""
    found = re.match(r"((?:\w+)(?:,\s?\w+)*)(?:\s+|$)(.*)", text, re.DOTALL)
    names = found[1] if found else ""
    if not found or (tag == "return" and not names.startswith("MOIETY_")):
        return "", text
    return ", ".join(f"`{name.strip()}`" for name in names.split(",")), found[2]


def table(tags, tag, head):
    rows = [split_name(tag, text) for name, text in tags if name == tag]
    if rows:
        yield from [f"| {head} | |", "|---|---|"]
        yield from (f"| {name} | {plain(cell(text))} |" for name, text in rows)
        yield ""


def told(comment):
    paragraphs, tags = parts_of(comment or "")
    for paragraph in paragraphs:
        yield from [plain(paragraph), ""]
    yield from table(tags, "param", "parameter")
    yield from table(tags, "return", "returns")
    for tag, text in tags:
        if tag not in ("param", "return"):
            yield from [f"- **{tag}:** {plain(text)}"]
    yield ""


def code(text):
    return ["```c", text.strip(), "```", ""]


def one_line(declaration):
    text = re.sub(r"\b(MOIETY_API|MOIETY_MUST_USE)\b\s*", "", declaration)
    text = re.sub(r"\s+", " ", text).replace("( ", "(")
    if len(text) <= 90:
        return text
    head, arguments = text.split("(", 1)
    return f"{head}(\n    " + ",\n    ".join(arguments.split(", "))


def members_of(text):
    body = text[text.index("{") + 1:text.rindex("}")]
    return list(MEMBER.finditer(body))


def members(text):
    """A table of fields or constants. One without a comment shares the one above."""
    yield from ["| member | |", "|---|---|"]
    for found in members_of(text):
        comment = " ".join(lines_of(found["comment"] or ""))
        yield (f"| `{cell(found['code'].rstrip(';,'))}` "
               f"| {plain(cell(comment))} |")
    yield ""


def name_of(item):
    text = item["function"] or item["type"] or item["constant"]
    if item["function"]:
        return re.search(r"(\w+)\(", text)[1]
    if item["constant"]:
        return re.match(r"#define (\w+)", text)[1]
    found = (re.search(r"\(\*(\w+)\)", text)
             or re.search(r"(\w+)\s*(?:\([^()]*\))?;\s*$", text))
    return found[1]


def item_lines(item):
    yield from [f"### {name_of(item)}", ""]
    if item["function"]:
        yield from code(one_line(item["function"]))
    elif item["type"] and "{" in item["type"]:
        yield from told(item["comment"])
        yield from members(item["type"])
        return
    elif item["type"]:
        yield from code(re.sub(r"\s+", " ", item["type"]))
    else:
        yield from code(re.sub(r" +\\\n *", " ", item["constant"]))
    yield from told(item["comment"])


def items_of(text):
    """Those that a comment documents, or that are declared."""
    for item in ITEM.finditer(text):
        if item["function"] or item["comment"] is not None:
            yield item


def section(path, text):
    yield from [f"## {title_of(path)}", ""]
    yield from told(TOP.match(text)["comment"].replace(
        LICENCE, ""))
    for item in items_of(text):
        yield from item_lines(item)


def undocumented(path, text):
    """What is wrong with a header, a line each."""
    if not TOP.match(text) or not any(parts_of(
            TOP.match(text)["comment"].replace(LICENCE, ""))):
        yield f"{path.name} does not begin with a comment"
    for item in ITEM.finditer(text):
        if item["constant"] and not re.search(r"#define \w+ ", item["constant"]):
            continue  # of the header's own guard
        if not (item["comment"] or "").strip("* \n"):
            if item["function"] or item["type"]:
                yield f"{path.name}: {name_of(item)} has no comment"
            continue
        if item["type"] and "{" in item["type"]:
            if not (members_of(item["type"])[0]["comment"] or ""):
                yield (f"{path.name}: the first member of {name_of(item)} has no "
                       "comment")
        if item["function"]:
            yield from unnamed_parameters(path, item)


def unnamed_parameters(path, item):
    words = re.search(r"\((.*)\)", item["function"], re.DOTALL)[1].split(",")
    has = {re.search(r"(\w+)\W*$", word)[1] for word in words} - {"void"}
    named = {name.strip("` ")
             for tag, text in parts_of(item["comment"])[1] if tag == "param"
             for name in split_name(tag, text)[0].split(",")}
    for name in sorted(named - has):
        yield f"{path.name}: {name_of(item)} has no parameter '{name}'"
    for name in sorted(has - named - OBJECTS if named else ()):
        yield f"{path.name}: {name_of(item)} does not say what '{name}' is"


def headers_of(root):
    """Those that most programs need, then the others, then those for frameworks."""
    found = sorted((root / HEADERS).glob("*.h"))
    return sorted(found, key=lambda path: (
        FIRST.index(path.name) if path.name in FIRST else len(FIRST))
    ) + sorted((root / HEADERS).glob("stacks/*.h"))


def title_of(path):
    return f"stacks/{path.name}" if path.parent.name == "stacks" else path.name


def essential_of(texts):
    """What moiety.h includes, and moiety.h: a program that needs more names it."""
    return {ESSENTIAL} | {name for path, text in texts if path.name == ESSENTIAL
                          for name in INCLUDED.findall(text)}


def overview(title, told_of, texts):
    if not texts:
        return
    yield from [f"## {title}", "", told_of, "", "| header | functions |", "|---|---|"]
    for path, text in texts:
        names = [name_of(item) for item in items_of(text) if item["function"]]
        links = ", ".join(f"[{name}](#{name})" for name in names)
        title = title_of(path)
        yield f"| [{title}](#{re.sub(r'[./]', '', title)}) | {links} |"
    yield ""


def page(paths):
    texts = [(path, path.read_text(encoding="utf-8")) for path in paths]
    essential = essential_of(texts)
    yield from ["<!-- SPDX-License-Identifier: Apache-2.0 -->",
                "# C reference", "",
                "All public headers, made from them by "
                "`docs/dev/reference/c_reference.py`.", "[C API](../c-api.md) has the "
                "calls that most programs use, and the statuses.", ""]
    yield from overview("Essential headers", "`moiety/moiety.h` includes these.",
                        [one for one in texts if title_of(one[0]) in essential])
    yield from overview("Advanced headers", "Include each of these by its name.",
                        [one for one in texts if title_of(one[0]) not in essential])
    for path, text in texts:
        yield from section(path, text)


def made(root):
    text = "\n".join(page(headers_of(root)))
    return re.sub(r"\n{3,}", "\n\n", text).rstrip() + "\n"


def main(words):
    is_check = "--check" in words
    roots = [word for word in words if word != "--check"]
    root = pathlib.Path(roots[0] if roots else ".")
    if not headers_of(root):
        print(f"c_reference: no header in {root / HEADERS}", file=sys.stderr)
        return 1
    wrong = [line for path in headers_of(root)
             for line in undocumented(path, path.read_text(encoding="utf-8"))]
    if wrong:
        print("\n".join(f"c_reference: {line}" for line in wrong),
              file=sys.stderr)
        return 1
    text = made(root)
    if not is_check:
        (root / PAGE).write_text(text, encoding="utf-8")
    elif (root / PAGE).read_text(encoding="utf-8") != text:
        print(f"c_reference: {PAGE} is not what the headers say: python3 "
              "docs/dev/reference/c_reference.py", file=sys.stderr)
        return 1
    print(f"c_reference: {text.count(chr(10) + '### ')} items")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
