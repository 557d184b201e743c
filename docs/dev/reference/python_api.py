#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes docs/reference/python-api.md from the docstrings and type stubs of the package.

    PYTHONPATH=bazel-bin/emm/site python3 docs/dev/reference/python_api.py >docs/reference/python-api.md

Signatures are those of the stubs. Docstrings of modules in Python are read from
their sources, so that no framework has to be installed; those of objects in C
from the objects. A docstring has paragraphs, code with four spaces in front, and
lists of parameters:

    name   text, which goes on
           in further lines

Exits with 1, and says why, if a public name has no docstring or no stub.
"""

import ast
import re
import sys
import textwrap
from pathlib import Path

import moiety
from moiety import _native

PACKAGE = Path(moiety.__file__).parent
MODULES = ("", "numpy", "torch", "cupy", "numba", "rmm", "cuda_core", "dask",
           "onnxruntime", "ipc", "regions", "observe", "trace")
COLUMNS = 100
PARAMETER = re.compile(r"([\w\"*]\S*(?:, [\w\"*]\S*)*)  +(\S.*)")
HEAD = """<!-- SPDX-License-Identifier: Apache-2.0 -->
<!-- Made by docs/dev/reference/python_api.py: change the docstrings instead. -->
# Python API

All public names of the package `moiety`. [Python](../guides/python.md) is the guide with programs.
`help()` shows the same texts.

In signatures, `Size` is a number of bytes, text such as `"8GiB"`, or None. `Any` for a stream or an
address is what the section on `moiety` and the methods describe.

"""


class Undocumented(Exception):
    """A public name without a docstring or a stub."""


def path_of(module):
    """Of the source of a module, by its full name."""
    path = PACKAGE.joinpath(*module.split(".")[1:])
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def tree_of(path, _trees={}):
    """Its syntax tree; None where there is no such file."""
    if path not in _trees:
        _trees[path] = (ast.parse(path.read_text(encoding="utf-8"))
                        if path.exists() else None)
    return _trees[path]


def public_names(module):
    """What __all__ has, in its order."""
    for node in tree_of(path_of(module)).body:
        if isinstance(node, ast.Assign) and node.targets[0].id == "__all__":
            return ast.literal_eval(node.value)
    raise Undocumented(f"{module} has no __all__")


def flat(body):
    """Statements, also those within try:."""
    for node in body:
        if isinstance(node, ast.Try):
            yield from flat(node.body)
        else:
            yield node


def origin_of(module, name):
    """(module, name) where something is defined that others import."""
    tree = tree_of(path_of(module))
    if module == "moiety._native" or tree is None:
        return module, name
    for node in flat(tree.body):
        if isinstance(node, (ast.ClassDef, ast.FunctionDef,
                             ast.AsyncFunctionDef)) and node.name == name:
            return module, name
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(
                "moiety"):
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    inner = f"{node.module}.{alias.name}"
                    if tree_of(path_of(inner)) is not None:
                        return inner, ""
                    return origin_of(node.module, alias.name)
        if isinstance(node, ast.Assign) and isinstance(
                node.value, ast.Attribute) and getattr(
                    node.targets[0], "id", None) == name:
            inner, _ = origin_of(module, node.value.value.id)
            return origin_of(inner, node.value.attr)
    return module, name


def node_of(tree, name):
    """The class, function or annotated name that a file defines; or None."""
    for node in flat(tree.body) if tree else ():
        if getattr(node, "name", None) == name:
            return node
        target = node.target if isinstance(node, ast.AnnAssign) else None
        if isinstance(target, ast.Name) and target.id == name:
            return node
    return None


def stub_of(module, name):
    """The node of a name in a stub, and the stub's path: that of the module
    that defines it, or else of the one that exports it."""
    for place in (origin_of(module, name), (module, name)):
        path = path_of(place[0]).with_suffix(".pyi")
        node = node_of(tree_of(path), place[1])
        if node is not None:
            return node, path
    raise Undocumented(f"{module}.{name} is in no type stub")


def members_of(node):
    """The public members of a class of a stub, by their names."""
    found = {}
    for one in node.body:
        label = getattr(one, "name", None) or getattr(
            getattr(one, "target", None), "id", "_")
        if not label.startswith("_"):
            found.setdefault(label, one)
    return found


def with_bases(node, path, is_for=lambda base: True):
    """members_of() a class, and of its bases in the same stub."""
    found = members_of(node)
    for base in node.bases:
        label = getattr(base, "id", "")
        inherited = node_of(tree_of(path), label)
        if inherited is not None and is_for(label):
            found |= with_bases(inherited, path, is_for)
    return found


def docstring_of(module, name, member=None, node=None):
    """As it is written; Undocumented where there is none. `node` is the member's
    in the stub."""
    where, own = origin_of(module, name)
    if where == "moiety._native":
        thing = getattr(_native, own)
        text = (thing if member is None else getattr(thing, member)).__doc__
    else:
        text = _docstring_in(tree_of(path_of(where)), own, member)
    if member and text is None and is_attribute(node):
        text = "See the class."
    if not text or not text.strip():
        raise Undocumented(
            f"{module}.{name}{'.' + member if member else ''} has no docstring")
    return text


def _docstring_in(tree, name, member):
    """None where there is none; "" for one that is not written."""
    node = node_of(tree, name)
    if not isinstance(node, (ast.ClassDef, ast.FunctionDef,
                             ast.AsyncFunctionDef)):
        return _assigned_docstring(tree, name) if member is None else None
    if member is None:
        return ast.get_docstring(node)
    for one in node.body:
        if getattr(one, "name", None) == member:
            return ast.get_docstring(one) or ""
        if isinstance(one, ast.Assign) and \
                getattr(one.targets[0], "id", None) == member:
            return _doc_of_call(one.value)
    bases = [one.id for one in node.bases if isinstance(one, ast.Name)]
    found = [_docstring_in(tree, base, member) for base in bases
             if isinstance(node_of(tree, base), ast.ClassDef)]
    if any(found):
        return next(filter(None, found))
    # RMM's or Dask's class has it.
    is_theirs = any(node_of(tree, base) is None for base in bases)
    return "See the base class." if is_theirs else None


def _assigned_docstring(tree, name):
    """NAME.__doc__ = text"""
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(
                node.targets[0], ast.Attribute) and \
                node.targets[0].attr == "__doc__" and \
                node.targets[0].value.id == name:
            return ast.literal_eval(node.value)
    return None


def _doc_of_call(call):
    """Of property(..., doc=text), or of a helper with the text last."""
    for keyword in getattr(call, "keywords", ()):
        if keyword.arg == "doc":
            return ast.literal_eval(keyword.value)
    arguments = getattr(call, "args", ())
    return (arguments[-1].value if arguments and isinstance(
        arguments[-1], ast.Constant) else None)


# --- as Markdown ---

def signature(node, name, kind=""):
    """In a fence, at most COLUMNS wide."""
    if isinstance(node, ast.ClassDef):
        init = next((one for one in node.body
                     if getattr(one, "name", None) == "__init__"), None)
        bases = ", ".join(map(ast.unparse, node.bases))
        text = f"class {name}({bases})" if bases else f"class {name}"
        if init is None or "Error" in name:
            return f"```python\n{text}\n```\n"
        return f"```python\n{called(init, 'class ' + name)}\n```\n"
    return f"```python\n{kind}{called(node, name)}\n```\n"


def called(node, name):
    """name(parameters) -> result"""
    arguments = ast.unparse(node.args)
    arguments = re.sub(r"^(self|cls)(, |$)", "", arguments)
    arguments = re.sub(r"\b_native\.|\b_(?=Size|Path)", "", arguments)
    result = ast.unparse(node.returns) if node.returns else "None"
    result = "" if name.startswith("class ") or result == "None" else (
        " -> " + re.sub(r"\b_native\.|'", "", result))
    lines = textwrap.wrap(f"{name}({arguments}){result}", COLUMNS - 4,
                          subsequent_indent="    ", break_long_words=False)
    return "\n".join(lines)


def wrapped(text, first="", rest=""):
    return "\n".join(textwrap.wrap(
        " ".join(text.split()), COLUMNS, initial_indent=first,
        subsequent_indent=rest, break_long_words=False,
        break_on_hyphens=False))


def parameters(lines):
    """Items of a list, of "name  text" and what is indented behind."""
    items = []
    for line in lines:
        begin = PARAMETER.match(line)
        if begin:
            names = ", ".join(f"`{one}`" for one in begin[1].split(", "))
            items.append(f"{names}: {begin[2]}")
        elif items and line.startswith(" "):
            items[-1] += " " + line.strip()
        else:
            return None
    return "\n".join(wrapped(item, "- ", "  ") for item in items)


def markdown(text):
    """A docstring."""
    made = []
    for part in re.split(r"\n\s*\n", text.strip("\n")):
        lines = part.split("\n")
        if all(line.startswith("    ") for line in lines):
            made.append("\n".join(lines))
            continue
        is_list = lines[0].startswith("- ")
        made.append(part if is_list else parameters(lines) or wrapped(part))
    return "\n\n".join(made) + "\n"


def attribute_row(name, node, text):
    kind = node.returns if isinstance(node, ast.FunctionDef) else \
        node.annotation
    kind = re.sub(r"^Final\[(.*)\]$", r"\1", ast.unparse(kind)).replace(
        "'", "").replace("_native.", "").replace("|", r"\|")
    return f"| `{name}` | `{kind}` | {' '.join(text.split())} |"


def is_attribute(node):
    return not isinstance(node, ast.FunctionDef) or any(
        ast.unparse(one) == "property" for one in node.decorator_list)


def members(module, name):
    rows, methods = [], []
    # A base that is public has its own place.
    shown = with_bases(*stub_of(module, name), lambda base: base[:1] == "_")
    for member, node in shown.items():
        text = docstring_of(module, name, member, node)
        if is_attribute(node):
            rows.append(attribute_row(member, node, text))
        else:
            kind = "classmethod " if any(
                ast.unparse(one) == "classmethod"
                for one in node.decorator_list) else ""
            methods.append(signature(node, f"{name}.{member}", kind) + "\n"
                           + markdown(text))
    if rows:
        yield "\n".join(["| attribute | type | |", "|---|---|---|", *rows]) \
            + "\n"
    yield from methods


def constant_row(module, name):
    node, path = stub_of(module, name)
    line = path.read_text().splitlines()[node.lineno - 1]
    text = line.partition("#")[2].strip()
    if not text:
        raise Undocumented(f"{module}.{name} has no comment in its stub")
    return f"| `{name}` | {text} |"


def page_of(module):
    full = f"moiety.{module}" if module else "moiety"
    tree = tree_of(path_of(full))
    yield f"## {full}\n"
    yield markdown(ast.get_docstring(tree))
    names = public_names(full)
    constants = [name for name in names
                 if isinstance(stub_of(full, name)[0], ast.AnnAssign)]
    if constants:
        yield "\n".join(["| constant | |", "|---|---|", *(
            constant_row(full, name) for name in constants)]) + "\n"
    for name in sorted(set(names) - set(constants),
                       key=lambda name: (name.lower(), name)):
        node, _ = stub_of(full, name)
        yield f"### {full}.{name}\n"
        yield signature(node, name)
        yield markdown(docstring_of(full, name))
        if isinstance(node, ast.ClassDef) and "Error" not in name:
            yield from members(full, name)


def make():
    """The page."""
    return HEAD + "\n".join(part for module in MODULES
                            for part in page_of(module))


if __name__ == "__main__":
    try:
        sys.stdout.write(make())
    except Undocumented as error:
        sys.exit(f"python_api: {error}")
