# SPDX-License-Identifier: Apache-2.0
"""What the type stubs say of parameters is what inspect.signature() sees."""

import ast
import importlib
import inspect
import sys
from pathlib import Path

import fake_frameworks
import pytest

import moiety

fake_frameworks.install_cupy()
fake_frameworks.install_rmm()
fake_frameworks.install_onnxruntime()

MODULES = ("_native", "_nep49", "_pools.pools", "cuda", "cupy", "dask", "ipc",
           "numba", "numpy", "observe", "onnxruntime", "rmm", "trace")
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
    for module in MODULES for name, node in functions(module)
    if not decorators(node) & {"property", "overload"}]


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
