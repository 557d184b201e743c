#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_imports.py PACKAGE_FOLDER

No two modules of a Python package import each other, directly or by way of
others, nor do two parts of it: a part is a folder of the package, or a module
that lies beside the folders. Imports inside functions count. Prints each circle;
fails if there is any.
"""

import ast

from tree_files import run_check


def modules_of(root):
    """{dotted name: path} of a package, which has its folder's name."""
    return {".".join((path.parent if path.stem == "__init__" else
                      path.with_suffix("")).relative_to(root.parent).parts):
            path for path in root.rglob("*.py")}


def imported(path, modules):
    """Those of the modules that one names."""
    for node in ast.walk(ast.parse(path.read_text(), path)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            # What is no module is a name in one.
            names = [f"{node.module}.{alias.name}"
                     if f"{node.module}.{alias.name}" in modules
                     else node.module for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            raise SystemExit(f"imports: {path}:{node.lineno}: a relative "
                             f"import, whose circles are not looked for")
        else:
            continue
        yield from (name for name in names if name in modules)


def part_of(module):
    return ".".join(module.split(".")[:2])


def graph_of(pairs):
    graph = {}
    for source, target in pairs:
        if source != target:
            graph.setdefault(source, set()).add(target)
    return graph


def circle_in(graph):
    """The names on one circle, the first again at the end; or None."""
    done = set()

    def search(name, way):
        if name in way:
            return [*way[way.index(name):], name]
        if name not in done:
            for target in sorted(graph.get(name, ())):
                found = search(target, [*way, name])
                if found:
                    return found
            done.add(name)
        return None

    return next(filter(None, (search(name, []) for name in sorted(graph))),
                None)


def check(root):
    modules = modules_of(root.resolve())
    if not modules:
        return [f"no Python in {root}"], ""
    pairs = [(name, target) for name, path in modules.items()
             for target in imported(path, modules)]
    parts = [(part_of(source), part_of(target)) for source, target in pairs]
    circles = [f"a circle: {' -> '.join(circle)}" for circle in
               (circle_in(graph_of(pairs)), circle_in(graph_of(parts)))
               if circle]
    return circles, f"{len(modules)} modules, no circle"


if __name__ == "__main__":
    run_check("imports", __doc__, check)
