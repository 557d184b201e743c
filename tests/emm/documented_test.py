# SPDX-License-Identifier: Apache-2.0
"""Each public name has a docstring and a stub, and docs/reference/python-api.md has them
as they are. What the stubs say of parameters is what inspect.signature() sees."""

import ast
import importlib
import importlib.util
import inspect
import os
import sys
from pathlib import Path

import fake_frameworks
import pytest

import moiety

fake_frameworks.install_cupy()
fake_frameworks.install_rmm()
fake_frameworks.install_onnxruntime()

ROOT = Path(os.environ["TEST_SRCDIR"], os.environ["TEST_WORKSPACE"])


def load_generator():
    spec = importlib.util.spec_from_file_location(
        "python_api", ROOT / "docs/dev/reference/python_api.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


api = load_generator()
MODULES = [f"moiety.{name}" if name else "moiety" for name in api.MODULES]
NAMES = [(module, name) for module in MODULES
         for name in api.public_names(module)]


def test_the_page_is_current():
    page = (ROOT / "docs/reference/python-api.md").read_text(encoding="utf-8")
    assert page == api.make(), "run docs/dev/reference/python_api.py"


@pytest.mark.parametrize("module, name", NAMES)
def test_a_public_name_has_a_stub_and_a_docstring_that_help_shows(module, name):
    node, _ = api.stub_of(module, name)
    thing = getattr(importlib.import_module(module), name)
    if isinstance(node, api.ast.AnnAssign):
        return  # a constant: the page has its comment
    shown = inspect.getdoc(thing)
    assert shown and shown == inspect.cleandoc(
        api.docstring_of(module, name))


def public_members(kind):
    """What Moiety's own bases define."""
    return {member for base in kind.__mro__
            if base.__module__.startswith("moiety")
            for member in vars(base) if not member.startswith("_")}


CLASSES = [(module, name) for module, name in NAMES
           if isinstance(api.stub_of(module, name)[0], api.ast.ClassDef)
           and "Error" not in name and name != "Manager"]


@pytest.mark.parametrize("module, name", CLASSES)
def test_a_member_has_a_stub_and_a_docstring(module, name):
    kind = getattr(importlib.import_module(module), name)
    stubs = api.with_bases(*api.stub_of(module, name))
    assert public_members(kind) <= set(stubs)
    for member in public_members(kind):
        thing = inspect.getattr_static(kind, member)
        # The class describes fields: those of Import, Operation, MoietySetup.
        if not inspect.ismemberdescriptor(thing) and not isinstance(thing, str):
            assert inspect.getdoc(thing), member


@pytest.mark.parametrize("module", MODULES)
def test_nothing_else_is_public(module):
    """Modules and what they import have names with _, or are in __all__."""
    imported = importlib.import_module(module)
    own = {name for name, thing in vars(imported).items()
           if not name.startswith("_") and getattr(
               thing, "__module__", None) == module
           and (inspect.isclass(thing) or inspect.isfunction(thing))}
    assert own <= set(imported.__all__)


def test_a_name_without_a_stub_is_found(monkeypatch):
    monkeypatch.setattr(api, "public_names", lambda module: ["nothing"])
    with pytest.raises(api.Undocumented, match="moiety.nothing is in no type"):
        api.make()


@pytest.mark.parametrize("text", [None, "", "  \n"])
def test_a_name_without_a_docstring_is_found(monkeypatch, text):
    monkeypatch.setattr(api, "_docstring_in", lambda *_: text)
    with pytest.raises(api.Undocumented, match="has no docstring"):
        api.make()


def test_a_constant_without_a_comment_is_found(monkeypatch):
    node = api.ast.parse("ANY: int").body[0]
    stub = Path(moiety.__file__).with_suffix(".py")
    monkeypatch.setattr(api, "stub_of", lambda *_: (node, stub))
    monkeypatch.setattr(Path, "read_text", lambda *_, **__: "ANY: int")
    with pytest.raises(api.Undocumented, match="has no comment"):
        api.constant_row("moiety", "ANY")


@pytest.mark.parametrize("text, page", [
    ("One line.", "One line.\n"),
    ("Words\nthat go on.\n\n    code = 1\n\nEnd.",
     "Words that go on.\n\n    code = 1\n\nEnd.\n"),
    ("size   the bytes, which\n       goes on.\nb, c   others.",
     "- `size`: the bytes, which goes on.\n- `b`, `c`: others.\n"),
    ("- one\n- two", "- one\n- two\n")])
def test_a_docstring_becomes_markdown(text, page):
    assert api.markdown(text) == page


# --- parameters ---

STUBS = ("_native", "_nep49", "_pools.pools", "_support.guards",
           "_support.stats", "cuda_core", "cupy", "dask", "ipc",
           "numba", "numpy", "observe", "onnxruntime", "regions", "rmm",
           "trace")
# Of numba's: as their base classes have them.
INHERITED = {("numba", "OutOfMemoryError")}
# What Python 3.12 and later show of the buffer protocol.
SHOWN_LATER = {"__buffer__"}


def decorators(node):
    return {ast.unparse(one) for one in node.decorator_list}


def functions(module):
    """(name, node) of what the stub declares, overloads aside."""
    path = Path(moiety.__file__).parent / module.replace(".", "/")
    if path.is_dir():
        path /= "__init__"
    source = path.with_suffix(".pyi").read_text()
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef):
            yield (node.name,), node
        elif isinstance(node, ast.ClassDef):
            if (module, node.name) not in INHERITED:
                yield from (((node.name, one.name), one) for one in node.body
                            if isinstance(one, ast.FunctionDef))


CASES = [
    pytest.param(module, name, node, id=".".join((module, *name)))
    for module in STUBS for name, node in functions(module)
    if not decorators(node) & {"property", "budget.setter", "overload"}]


def parameters_of_stub(node):
    """(name, kind, whether it has a default), without self or cls."""
    arguments = node.args
    positional = [*((one.arg, "POSITIONAL_ONLY")
                    for one in arguments.posonlyargs),
                  *((one.arg, "POSITIONAL_OR_KEYWORD")
                    for one in arguments.args)]
    required = len(positional) - len(arguments.defaults)
    found = [(*one, index >= required) for index, one in enumerate(positional)]
    if arguments.vararg:
        found.append((arguments.vararg.arg, "VAR_POSITIONAL", False))
    found += [(one.arg, "KEYWORD_ONLY", default is not None) for one, default
              in zip(arguments.kwonlyargs, arguments.kw_defaults)]
    if arguments.kwarg:
        found.append((arguments.kwarg.arg, "VAR_KEYWORD", False))
    return [one for one in found if one[0] not in ("self", "cls")]


def parameters_of(function):
    return [(one.name, one.kind.name, one.default is not one.empty)
            for one in inspect.signature(function).parameters.values()
            if one.name not in ("self", "cls")]


@pytest.mark.parametrize("module, name, node", CASES)
def test_the_stub_and_the_function_agree(module, name, node):
    thing = importlib.import_module(f"moiety.{module}")
    # A class says what its construction takes.
    if sys.version_info < (3, 12) and name[-1] in SHOWN_LATER:
        return
    for part in name if name[-1] != "__init__" else name[:-1]:
        thing = getattr(thing, part)
    if isinstance(thing, type(int.__add__)):
        return  # a slot of a type in C, as its protocol has it
    assert parameters_of(thing) == parameters_of_stub(node)


@pytest.mark.parametrize("name", moiety.__all__)
def test_what_is_public_has_a_signature(name):
    thing = getattr(moiety, name)
    if not callable(thing) or issubclass(type(thing), type) and (
            issubclass(thing, BaseException)
            or name in ("Block", "HostBlock", "Tenant")):
        return  # pools make these, and errors are as Python's
    inspect.signature(thing)
    if isinstance(thing, type):
        for member in (one for one in dir(thing) if one[0] != "_"):
            if callable(getattr(thing, member)):
                inspect.signature(getattr(thing, member))
