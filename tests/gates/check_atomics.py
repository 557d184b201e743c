#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_atomics.py FOLDER

Every atomic operation says which edge it is an end of, or why relaxed is
enough. An edge is two capital letters, a row of docs/dev/memory-model.md.

 1. The declaration of an atomic object, or of its type, has a comment with
    "Edge XY" ("Edges XY and ZW"), or with "Edge: none; relaxed". A comment
    holds for the declarations below it, to the next comment or empty line.
 2. An operation names an edge in a comment in or right before its statement,
    or in the one above its function; one of those that its object declares. A
    relaxed one may give a reason instead, with the word "relaxed". It may leave
    that to the declaration, or to one sentence for all that its file has:
    "Every operation of this file is relaxed".
 3. The order is written out: atomic_..._explicit(), or a function of
    pool/base/atomics.h with the order in its name. No operator reads or writes
    an atomic object.
 4. Each edge that the code names has a row, and each row names files and
    functions that exist. Such a function, or one that it calls, has an atomic
    operation, and one of the two names the edge.

Prints what breaks these rules, or how many operations there are of each sort.
"""

import bisect
import collections
import os
import re

from tree_files import files_of, run_check

FOLDERS = ("pool", "numa", "serve", "emm")
# Its functions are the operations: the comment is where they are called.
WRAPPERS = "pool/base/atomics.h"
ROWS = "docs/dev/memory-model.md"

TOKEN = re.compile(
    r"(?P<comment>/\*.*?\*/|//[^\n]*)"
    r"|(?P<macro>^[ \t]*\#(?:\\\n|/\*.*?\*/|[^\n])*)"
    r"|(?P<string>\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*')"
    r"|(?P<name>[A-Za-z_]\w*)|(?P<number>\d[\w.]*)"
    r"|(?P<mark>->|\+\+|--|[-+*/%&|^]=|<<=|>>=|[=!<>]=|&&|\|\||\S)",
    re.DOTALL | re.MULTILINE)
ORDER = re.compile(r"(relaxed|consume|acquire|release|acq_rel|seq_cst)$")
OPERATION = re.compile(
    r"(atomic|__atomic|__sync)_\w+$|moietyi_(load|store|cas|or|and)_"
    r"(relaxed|acquire|release|acq_rel|seq_cst)$")
NO_OPERATION = re.compile(r"atomic_(init|is_lock_free|\w+_t|u?int|bool)$")
ATOMIC_TYPE = re.compile(
    r"_Atomic$|atomic_(bool|flag|u?(char|short|int|long|llong)|"
    r"u?int\w+_t|size_t|ptrdiff_t|uintptr_t|intptr_t)$")
EDGE = re.compile(r"\b[A-Z]{2}\b")
DECLARED = re.compile(r"\bEdges? ((?:[A-Z]{2}\b(?:,? and |, )?)+)")
NAMED = re.compile(
    r"\b([A-Z]{2})\.(?:relaxed|acquire|release|acq_rel|seq_cst)\b")
NONE = re.compile(r"\bEdge: none; relaxed\b")
RELAXED = re.compile(r"\brelaxed\b", re.IGNORECASE)
ALL_RELAXED = "Every operation of this file is relaxed"
STARTS = {"return", "else", "do", "case"}
NOT_NAMES = {"__attribute__", "_Atomic", "alignas", "_Alignas",
             "_Static_assert", "PyObject_HEAD", "if", "for", "while", "switch", "return",
             "sizeof", "defined"}

Token = collections.namedtuple("Token", "kind text line end_line")
Object = collections.namedtuple(
    "Object", "path line name levels is_field comment")
Function = collections.namedtuple("Function", "path name comment first last")
Site = collections.namedtuple(
    "Site", "path line function name orders object is_field comments")


def tokens_of(text):
    """The tokens of a source; comments and directives are tokens too."""
    starts = [0] + [found.end() for found in re.finditer("\n", text)]
    tokens = []
    for found in TOKEN.finditer(text):
        text_of = found.group()
        if found.lastgroup == "comment":
            text_of = re.sub(r"\s*\n\s*\*?\s*", " ", text_of)
        tokens.append(Token(found.lastgroup, text_of,
                            bisect.bisect_right(starts, found.start()),
                            bisect.bisect_right(starts, found.end() - 1)))
    return tokens


class Source:
    """One file, cut into functions and what lies outside of them."""

    def __init__(self, path, text):
        self.path = path
        self.lines = text.split("\n")
        self.all = tokens_of(text)
        # Code has no comments in it; `places` leads back to where it stood.
        self.places = [i for i, token in enumerate(self.all)
                       if token.kind not in ("comment", "macro")]
        self.code = [self.all[i] for i in self.places]
        self.depths = self.depths_of("(", ")")
        self.braces = self.depths_of("{", "}")
        self.functions = list(self.find_functions())

    def depths_of(self, opening, closing):
        """How many brackets are open before each token of the code."""
        depths, depth = [], 0
        for token in self.code:
            depth -= token.text == closing
            depths.append(depth)
            depth += token.text == opening
        return depths

    def match(self, at, step=1):
        """The bracket that belongs to the one at `at`."""
        pairs = {"(": ")", "[": "]", "{": "}"}
        mine = self.code[at].text
        other = (pairs if step == 1 else
                 {value: key for key, value in pairs.items()})[mine]
        depth = 0
        while 0 <= at < len(self.code):
            text = self.code[at].text
            depth += (text == mine) - (text == other)
            if not depth:
                return at
            at += step
        return len(self.code) - 1 if step == 1 else 0

    def comments_between(self, first, end):
        """The comments between two tokens of the code, by their number."""
        low = self.places[first - 1] + 1 if first else 0
        high = self.places[end] if end < len(self.places) else len(self.all)
        return [token for token in self.all[low:high]
                if token.kind == "comment"]

    def find_functions(self):
        """Each function with a body, at the file's own level."""
        at = start = 0
        while at < len(self.code):
            text = self.code[at].text
            if text == ";" or text == "}":
                start = at + 1
            elif text == "{" and self.code[at - 1].kind == "string":
                start = at + 1  # extern "C"
            elif text == "{":
                end = self.match(at)
                name = self.name_of_function(start, at)
                if name:
                    yield Function(self.path, name, self.comment_above(start),
                                   at, end)
                    start = end + 1
                at = end
            at += 1

    def comment_above(self, start):
        """The comments that end right above a token of the code."""
        text, line = "", self.code[start].line
        for one in reversed(self.comments_between(start, start + 1)):
            if one.end_line + 1 != line:
                break
            text, line = one.text + " " + text, one.line
        return text

    def name_of_function(self, start, brace):
        """The name before the parameters; None where no function begins."""
        if any(token.text == "=" for token in self.code[start:brace]):
            return None
        for i in range(start, brace):
            if (self.code[i].kind == "name" and not self.depths[i] and
                    self.code[i].text not in NOT_NAMES and
                    self.code[i + 1].text == "("):
                return self.code[i].text
        return None

    def function_at(self, at):
        """The function in whose body a token lies, or None."""
        for function in self.functions:
            if function.first < at < function.last:
                return function
        return None

    def is_in_braces(self, at):
        """Whether a token lies in a structure, or in a function."""
        return self.braces[at] > 0

    def is_end(self, at):
        """Whether a statement ends with this token of the code."""
        text = self.code[at].text
        if self.depths[at] or text not in (";", "{", "}"):
            return False
        if text == "{" and self.code[at - 1].text == "=":
            return False
        return not (text == "}" and at + 1 < len(self.code) and
                    self.code[at + 1].text == "while")

    def statement_comments(self, at):
        """Those right before the statement, in it, and behind it."""
        first = last = at
        while first and not self.is_end(first - 1):
            first -= 1
        while last + 1 < len(self.code) and not self.is_end(last):
            last += 1
        comments = self.comments_between(first, last + 1)
        # What trails the statement before is that one's.
        if first:
            comments = [one for one in comments
                        if one.line != self.code[first - 1].line]
        behind = self.places[last] + 1
        if behind < len(self.all) and self.all[behind].kind == "comment" and \
                self.all[behind].line == self.code[last].line:
            comments.append(self.all[behind])
        return " ".join(one.text for one in comments)


def name_of_argument(source, start, end):
    """What an address is of: the last name outside of brackets, how often it is
    indexed, and whether it is a field."""
    name, levels, depth, is_field = None, 0, 0, False
    for i in range(start, end):
        text = source.code[i].text
        if text in "([":
            levels += text == "[" and depth == 0
            depth += 1
        elif text in ")]":
            depth -= 1
        elif depth == 0 and source.code[i].kind == "name":
            name, levels = text, 0
            is_field = source.code[i - 1].text in ("->", ".")
    return name, levels, is_field


def sites_of(source):
    """Every atomic operation of a source."""
    for i, token in enumerate(source.code[:-1]):
        if token.kind != "name" or source.code[i + 1].text != "(" or \
                not OPERATION.match(token.text) or \
                NO_OPERATION.match(token.text):
            continue
        function = source.function_at(i)
        if not function:
            continue
        end = source.match(i + 1)
        comma = i + 2
        while comma < end and not (source.code[comma].text == "," and
                                   source.depths[comma] ==
                                   source.depths[i] + 1):
            comma += 1
        name, _, is_field = name_of_argument(source, i + 2, comma)
        yield Site(source.path, token.line, function, token.text,
                   orders_of(source.code[i:end]), name, is_field,
                   (source.statement_comments(i), function.comment))
    yield from sites_of_macros(source)


def orders_of(tokens):
    """The orders of an operation, of which these are the tokens."""
    words = [token.text for token in tokens if token.kind == "name"]
    found = [ORDER.search(words[0])] + [
        ORDER.search(word) for word in words[1:]
        if word.startswith("memory_order_")]
    return [one.group(1) for one in found if one] + [
        word[len("__ATOMIC_"):].lower() for word in words
        if word.startswith("__ATOMIC_")]


def sites_of_macros(source):
    """The same in macros, of which the comment stands above."""
    for before, token in zip(source.all, source.all[1:]):
        if token.kind != "macro":
            continue
        body = tokens_of(token.text.lstrip(" \t#"))
        macro = Function(source.path, "", "", 0, 0)
        for i, one in enumerate(body[:-1]):
            if body[i + 1].text == "(" and OPERATION.match(one.text) and \
                    not NO_OPERATION.match(one.text):
                end = next(j for j in range(i, len(body))
                           if body[j].text == ")")
                yield Site(source.path, token.line, macro, one.text,
                           orders_of(body[i:end]), None, False, (
                               before.text if before.kind == "comment" else "",
                               ""))


def typedefs_of(sources):
    """Names of atomic types that are defined here, with their comments."""
    types = {}
    for source in sources:
        for i, token in enumerate(source.code):
            if token.text != "typedef":
                continue
            end = i
            while source.code[end].text != ";" or source.depths[end]:
                end += 1
            if any(ATOMIC_TYPE.match(one.text) for one in source.code[i:end]):
                types[source.code[end - 1].text] = source.comment_above(i)
    return types


def declaration_comment(source, first, last):
    """The comment above a declaration or the ones above it, or behind it."""
    behind = source.places[last] + 1
    own = [token.text for token in source.all[behind:behind + 1]
           if token.kind == "comment" and token.line == source.code[last].line]
    own += [one.text for one in source.comments_between(first + 1, last)]
    line = source.code[first].line - 1
    by_end = {token.end_line: token for token in source.all
              if token.kind == "comment"}
    while line > 0 and source.lines[line - 1].strip():
        above = by_end.get(line)
        if above and source.lines[above.line - 1].strip().startswith("/*"):
            own.append(above.text)
            break
        line -= 1
    return " ".join(own)


def objects_of(source, types):
    """Every atomic object that a source declares in a structure or by itself:
    what a function has on its stack is a pointer to one of them."""
    at = 0
    while at < len(source.code):
        token = source.code[at]
        is_type = token.kind == "name" and (
            token.text in types or ATOMIC_TYPE.match(token.text))
        if not is_type or source.depths[at]:
            at += 1
            continue
        first, end = at, at
        while first and source.code[first - 1].text not in ";{}":
            first -= 1
        while source.code[end].text not in (";", "=", "{") or \
                source.depths[end]:
            end += 1
        head = [one.text for one in source.code[first:end]]
        function = source.function_at(at)
        at = end
        if "typedef" in head or source.code[end].text == "{" and \
                source.code[end - 1].text != "=":
            continue
        is_plain_function = not function and source.code[end - 1].text == ")"
        if is_plain_function or "extern" in head or \
                function and ("*" in head and "static" not in head):
            continue
        if function and not any(word in head for word in ("static",)):
            if head[0] not in types and not ATOMIC_TYPE.match(head[0]):
                continue
        # A type in parentheses has the stars of its own.
        type_end = next(i for i in range(first, end)
                        if source.code[i].text in types or
                        ATOMIC_TYPE.match(source.code[i].text))
        if source.code[type_end].text == "_Atomic" and \
                source.code[type_end + 1].text == "(":
            type_end = source.match(type_end + 1)
        name, levels, _ = name_of_argument(source, type_end + 1, end)
        levels += sum(source.code[i].text == "*" and not source.depths[i]
                      for i in range(type_end + 1, end))
        while source.code[end].text != ";":
            end += 1
        comment = declaration_comment(source, first, end)
        yield Object(source.path, token.line, name, levels,
                     not function and source.is_in_braces(first),
                     comment + " " + types.get(token.text, ""))


def edges_declared(comment):
    """The edges in "Edge XY" and "Edges XY and ZW"."""
    return {edge for found in DECLARED.finditer(comment)
            for edge in EDGE.findall(found.group(1))}


class Row:
    """A row of the first table: an edge, and what its two ends are."""

    def __init__(self, line, cells):
        self.line = line
        self.edge = cells[0].strip()
        self.words = re.findall(r"`([^`]+)`", cells[1] + cells[2])

    def ends(self):
        """Each file and function; a function belongs to the file before it."""
        path = None
        for word in self.words:
            if re.fullmatch(r"[\w/]+\.[ch]", word):
                path = word
                yield path, None
            elif re.fullmatch(r"\w+", word):
                yield path, word


def rows_of(text):
    """The rows of the table of edges, the first one of the page."""
    rows = []
    for number, line in enumerate(text.split("\n"), 1):
        if line.startswith("| edge |") and rows:
            break
        cells = line.split("|")[1:-1]
        if len(cells) == 5 and re.fullmatch(r"\s*[A-Z]{2}\s*", cells[0]):
            rows.append(Row(number, cells))
    return rows


class Tree:
    """All sources, their objects and operations, and the rows."""

    def __init__(self, root):
        paths = [path for path in files_of(root)
                 if path.split("/")[0] in FOLDERS and
                 path.endswith((".c", ".h"))]
        self.sources = [Source(path, (root / path).read_text())
                        for path in paths]
        types = typedefs_of(self.sources)
        self.objects = [one for source in self.sources
                        for one in objects_of(source, types)]
        self.by_name = collections.defaultdict(list)
        for one in self.objects:
            self.by_name[one.name].append(one)
        self.sites = [site for source in self.sources
                      if source.path != WRAPPERS for site in sites_of(source)]
        self.all_relaxed = {
            source.path for source in self.sources for token in source.all
            if token.kind == "comment" and ALL_RELAXED in token.text}
        self.functions = collections.defaultdict(list)
        for source in self.sources:
            for function in source.functions:
                self.functions[function.name].append((source, function))
        self.rows = rows_of((root / ROWS).read_text())
        self.edges = {row.edge for row in self.rows}
        self.counts = collections.Counter()

    def declared_for(self, site):
        """The declarations that an operation's object may be."""
        found = [one for one in self.by_name.get(site.object, [])
                 if one.is_field == site.is_field and
                 (one.is_field or one.path == site.path)]
        here = [one for one in found if one.path == site.path]
        stem = [one for one in found if one.path[:-2] == site.path[:-2]]
        return here or stem or found

    def problems(self):
        """What breaks the rules, in their order."""
        yield from self.of_objects()
        yield from self.of_sites()
        yield from self.of_operators()
        yield from self.of_names()
        for row in self.rows:
            yield from self.of_row(row)

    def of_objects(self):
        """Rule 1."""
        for one in self.objects:
            if not edges_declared(one.comment) and not NONE.search(one.comment):
                yield (f"{one.path}:{one.line}: the declaration of {one.name} "
                       'has no "Edge XY" and no "Edge: none; relaxed"')

    def of_sites(self):
        """Rule 2, and the first half of rule 3."""
        for site in self.sites:
            place = f"{site.path}:{site.line}: {site.name}"
            self.counts["sites"] += 1
            if not site.orders:
                yield f"{place}: the order is not written out"
                continue
            declared = self.declared_for(site)
            edges = set().union(*(edges_declared(one.comment)
                                  for one in declared))
            near = " ".join(site.comments)
            named = set(EDGE.findall(near)) & self.edges
            is_relaxed = set(site.orders) == {"relaxed"}
            if named and edges and not named & edges and not (
                    is_relaxed and RELAXED.search(near)):
                yield (f"{place}: names {', '.join(sorted(named))}, but "
                       f"{site.object} declares {', '.join(sorted(edges))}")
            elif named or is_relaxed and edges and not RELAXED.search(near) \
                    and all(RELAXED.search(one.comment) for one in declared):
                self.counts["edge"] += 1
            elif is_relaxed and (
                    RELAXED.search(near) or site.path in self.all_relaxed or
                    declared and all(RELAXED.search(one.comment)
                                     for one in declared)):
                self.counts["relaxed"] += 1
            else:
                yield f"{place}: names no edge" + (
                    " and no reason" if is_relaxed else "")

    def of_operators(self):
        """The rest of rule 3."""
        plain = self.plain_fields()
        for source in self.sources:
            for i in range(len(source.code)):
                name = self.accessed(source, i, plain)
                if name:
                    yield (f"{source.path}:{source.code[i].line}: {name} is "
                           "read or written without an order")

    def plain_fields(self):
        """Names that some structure has for a field that is not atomic."""
        atomic = {(one.path, one.line, one.name) for one in self.objects}
        return {
            one.text for source in self.sources
            for i, one in enumerate(source.code[1:-1], 1)
            if one.kind == "name" and source.code[i + 1].text in ";[,:" and
            (source.code[i - 1].kind == "name" or
             source.code[i - 1].text in ("*", "}")) and
            source.is_in_braces(i) and not source.function_at(i) and
            (source.path, one.line, one.text) not in atomic}

    def accessed(self, source, i, plain):
        """The name of an atomic object that is used at `i` by an operator."""
        token = source.code[i]
        before = source.code[i - 1]
        is_field = before.text in ("->", ".")
        found = [one for one in self.by_name.get(token.text, ())
                 if one.is_field == is_field and
                 (is_field or
                  (one.path, one.line < token.line) == (source.path, True))]
        if not found or is_field and token.text in plain or \
                before.kind == "name" and before.text not in STARTS or \
                not source.function_at(i) or \
                before.text == "." and source.code[i - 2].text in ("{", ","):
            return None
        start, end, levels = i, i + 1, 0
        while source.code[start - 1].text in ("->", "."):
            start -= 2
            while source.code[start].text in ("]", ")"):
                start = source.match(start, -1) - 1
        while source.code[end].text == "[":
            levels += 1
            end = source.match(end) + 1
        if source.code[start - 1].text == "&" or \
                source.code[start - 2].text == "sizeof" or \
                levels < max(one.levels for one in found):
            return None
        return token.text

    def of_names(self):
        """Rule 4, of edges."""
        for source in self.sources:
            for token in source.all:
                if token.kind != "comment":
                    continue
                named = edges_declared(token.text) | \
                    set(NAMED.findall(token.text))
                for edge in sorted(named - self.edges):
                    yield (f"{source.path}:{token.line}: the edge {edge} has "
                           f"no row in {ROWS}")

    def of_row(self, row):
        """Rule 4, of a row."""
        place = f"{ROWS}:{row.line}: {row.edge}"
        full = None
        for path, name in row.ends():
            if name is None:
                found = [one.path for one in self.sources
                         if one.path == path or
                         one.path.endswith("/" + path)]
                near = [one for one in found if full and
                        os.path.dirname(one) == os.path.dirname(full)]
                found = near or found
                if len(found) != 1:
                    yield (f"{place}: {path} is "
                           f"{' or '.join(found) or 'no file'}")
                full = found[0] if len(found) == 1 else None
            else:
                yield from self.of_end(place, row.edge, full, name)

    def of_end(self, place, edge, path, name):
        """Rule 4, of one function of a row."""
        every = self.functions.get(name, [])
        found = [one for one in every if one[0].path == path]
        if not found:
            others = " or ".join(one[0].path for one in every)
            yield f"{place}: {name} is in {others or 'no file'}, not {path}"
            return
        source, function = found[0]
        calls = {token.text
                 for token in source.code[function.first:function.last]}
        near = [site for site in self.sites
                if (site.path, site.function.name) == (path, name) or
                site.function.name in calls and (
                    site.path == path or "_" in site.function.name and
                    len(self.functions[site.function.name]) == 1)]
        if not near:
            yield f"{place}: {name} has no atomic operation"
        elif not any(edge in EDGE.findall(" ".join(site.comments))
                     for site in near):
            yield f"{place}: no operation of {name} names the edge"


def check(root):
    tree = Tree(root)
    return list(tree.problems()), (
        f"{tree.counts['sites']} operations, {tree.counts['edge']} name an "
        f"edge, {tree.counts['relaxed']} are relaxed with a reason; "
        f"{len(tree.objects)} objects, {len(tree.rows)} edges")


if __name__ == "__main__":
    run_check("atomics", __doc__, check)
