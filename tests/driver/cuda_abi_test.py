#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares our declaration of the CUDA driver's ABI with the Toolkit's.

Nothing of Moiety needs cuda.h to build, so nothing else would notice a wrong
value, layout or signature. Here a C compiler does: a translation unit that
includes the Toolkit's cuda.h and cudaTypedefs.h gets one static assertion per
constant, macro, type, struct field and entry of ours. Then the same is done
with one thing broken on purpose, which must not compile.

The Toolkit is looked for in $CUDA_PATH, $CUDA_HOME and /usr/local/cuda. Where
there is none the test says SKIPPED and passes, or fails if
MOIETY_REQUIRE_TOOLKIT=1.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

DRIVER = pathlib.Path("pool/driver")
STANDIN = pathlib.Path("pool/standin")
CONSTANTS = (DRIVER / "cuda_constants.inc").read_text()
ENTRIES = (DRIVER / "cuda_entries.inc").read_text()
HEADER = (DRIVER / "cuda_abi.h").read_text()

PROLOGUE = """\
#include <stddef.h>
#include <stdint.h>
#include <cuda.h>
#include <cudaTypedefs.h>
#define SAME_TYPE(a, b, what) \\
    _Static_assert(__builtin_types_compatible_p(a, b), what)
#define SAME(a, b, what) _Static_assert((a) == (b), what)
"""
CONSTANT_MACROS = """\
#define ENUM(tag) SAME(sizeof(tag), 4, "size of " #tag);
#define VALUE(name, value) \\
    SAME((long long)(name), (long long)(value), "value of " #name);
#define ENUM_END(tag)
"""
ENTRY_MACROS = """\
#define ENTRY(base, version, symbol, need, memory, parameters) \\
    SAME_TYPE(CUresult (*) parameters, PFN_##base##_v##version, \\
              "signature of " #base);
"""


def find_toolkit():
    places = [os.environ.get("CUDA_PATH"), os.environ.get("CUDA_HOME"),
              "/usr/local/cuda"]
    for place in filter(None, places):
        if (pathlib.Path(place) / "include/cuda.h").is_file():
            return pathlib.Path(place)
    return None


def without_comments(text):
    return re.sub(r"/\*.*?\*/", "", text, flags=re.S)


def macros_of(header):
    """Values defined by name: (name, expression)."""
    rows = re.findall(r"^#define (CU\w+) +(\S.*)$", header, re.M)
    assert rows, "no macro found in cuda_abi.h"
    return rows


def typedefs_of(header):
    """Every typedef that is not one of the enums: (name, declaration)."""
    text = re.sub(r"^#.*(?:\\\n.*)*$", "", without_comments(header),
                  flags=re.M)
    rows = []
    for match in re.finditer(r"\btypedef\b", text):
        end, depth = match.end(), 0
        while text[end] != ";" or depth:
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            end += 1
        declaration = text[match.start():end + 1]
        name = (re.search(r"\(\*(\w+)\)\(", declaration) or
                re.search(r"(\w+);$", declaration)).group(1)
        rows.append((name, declaration))
    assert rows, "no typedef found in cuda_abi.h"
    return rows


def fields_of(declaration):
    """(path, type is a plain pointer) of every field, nested ones too."""
    body = declaration[declaration.index("{") + 1:declaration.rindex("}")]
    prefixes, rows = [[]], []
    for piece in re.findall(r"struct\s*{|}\s*\w+;|[^;{}]+;", body):
        piece = piece.strip()
        if piece.endswith("{"):
            prefixes.append([])
        elif piece.startswith("}"):
            name = piece.strip("} ;")
            inner = prefixes.pop()
            prefixes[-1] += [(f"{name}.{path}", opaque)
                             for path, opaque in inner]
        else:
            name = re.search(r"(\w+)\s*(\[[^]]*\])?;", piece).group(1)
            prefixes[-1].append((name, re.match(r"void \*\w", piece)))
    rows = prefixes.pop()
    assert rows and not prefixes, declaration
    return rows


def check_macros(header):
    for name, value in macros_of(header):
        # Stream handles are pointers: their bits are compared.
        cast = "(uintptr_t)" if "CUstream" in value else ""
        yield f'SAME({cast}({name}), {cast}({value}), "value of {name}");'


def check_struct(name, declaration):
    ours = f"ours_{name}"
    yield f'SAME(sizeof({ours}), sizeof({name}), "size of {name}");'
    yield f'SAME(_Alignof({ours}), _Alignof({name}), "alignment of {name}");'
    for path, is_opaque in fields_of(declaration):
        what = f"{name}.{path}"
        yield (f'SAME(offsetof({ours}, {path}), offsetof({name}, {path}), '
               f'"offset of {what}");')
        field = f"__typeof__((({{}} *)0)->{path})"
        if is_opaque:
            yield (f'SAME(sizeof({field.format(ours)}), '
                   f'sizeof({field.format(name)}), "size of {what}");')
        else:
            yield (f'SAME_TYPE({field.format(ours)}, {field.format(name)}, '
                   f'"type of {what}");')


def check_typedefs(header):
    for name, declaration in typedefs_of(header):
        yield re.sub(rf"\b{name}\b(?=\)\(|;$)", f"ours_{name}", declaration)
        if "{" in declaration:
            yield from check_struct(name, declaration)
        else:
            yield f'SAME_TYPE(ours_{name}, {name}, "type {name}");'


def unit(constants=CONSTANTS, entries=ENTRIES, header=HEADER):
    """The translation unit, in which every line asserts."""
    return "\n".join([PROLOGUE, CONSTANT_MACROS, constants, ENTRY_MACROS,
                      entries, *check_macros(header),
                      *check_typedefs(header), ""])


def compile_unit(text, toolkit):
    """What the compiler has to say; None if it is content."""
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / "abi.c"
        source.write_text(text)
        done = subprocess.run(
            [os.environ.get("CC", "cc"), "-std=gnu11", "-fsyntax-only", "-w",
             "-isystem", toolkit / "include", source],
            capture_output=True, text=True)
    return done.stderr if done.returncode else None


class Abi(unittest.TestCase):
    toolkit = None

    def refused(self, culprit, **parts):
        """One broken part must be refused, and by its name."""
        for part, changed in parts.items():
            self.assertNotEqual(changed, globals()[part.upper()],
                                "the mutation changed nothing")
        errors = compile_unit(unit(**parts), self.toolkit)
        self.assertIsNotNone(errors, f"a wrong {culprit} was not noticed")
        self.assertIn(culprit, errors)

    def test_everything_is_as_the_toolkit_says(self):
        text = unit()
        self.assertIsNone(compile_unit(text, self.toolkit))
        count = (text.count("\nSAME") + CONSTANTS.count("\nVALUE(") +
                 ENTRIES.count("\nENTRY("))
        print(f"{count} facts agree with {self.toolkit}")
        self.assertGreater(count, 400)

    def test_wrong_constant_is_noticed(self):
        self.refused("CUDA_ERROR_OUT_OF_MEMORY", constants=CONSTANTS.replace(
            "CUDA_ERROR_OUT_OF_MEMORY, 2)", "CUDA_ERROR_OUT_OF_MEMORY, 3)"))

    def test_wrong_macro_is_noticed(self):
        self.refused("CU_STREAM_PER_THREAD", header=HEADER.replace(
            "CU_STREAM_PER_THREAD ((CUstream)0x2)",
            "CU_STREAM_PER_THREAD ((CUstream)0x3)"))

    def test_wrong_typedef_is_noticed(self):
        self.refused("CUdeviceptr", header=HEADER.replace(
            "typedef unsigned long long CUdeviceptr;",
            "typedef long long CUdeviceptr;"))

    def test_wrong_field_order_is_noticed(self):
        self.refused("CUmemLocation.id", header=HEADER.replace(
            "    CUmemLocationType type;\n    int id;\n} CUmemLocation;",
            "    int id;\n    CUmemLocationType type;\n} CUmemLocation;"))

    def test_wrong_nested_field_is_noticed(self):
        self.refused("allocFlags.usage", header=HEADER.replace(
            "unsigned short usage;\n        unsigned char reserved[4];",
            "short usage;\n        unsigned char reserved[4];"))

    def test_wrong_signature_is_noticed(self):
        self.refused("cuMemAlloc", entries=ENTRIES.replace(
            "(CUdeviceptr *out, size_t size_bytes))",
            "(CUdeviceptr *out, unsigned size_bytes))", 1))

    def test_wrong_version_is_noticed(self):
        self.refused("cuCtxCreate", entries=ENTRIES.replace(
            "cuCtxCreate, 3020", "cuCtxCreate, 11040"))

    def test_table_names_symbols_of_the_list(self):
        """Symbol, base name and version of each row, against entries.inc."""
        known = set(re.findall(r"^ENTRY\((\w+), (\w+), (\d+), LEGACY\)",
                               (STANDIN / "entries.inc").read_text(), re.M))
        rows = re.findall(r"^ENTRY\((\w+),\s*(\d+),\s*(\w+),",
                          without_comments(ENTRIES), re.M)
        self.assertGreater(len(rows), 80)
        for base, version, symbol in rows:
            self.assertIn((symbol, base, version), known)

    def test_list_is_what_the_toolkit_declares(self):
        listed = (STANDIN / "entries.inc").read_text()
        version = re.search(r"CUDA (\d+)\.(\d+)", listed)
        text = (self.toolkit / "include/cuda.h").read_text()
        present = int(re.search(r"#define CUDA_VERSION (\d+)", text).group(1))
        if present != 1000 * int(version[1]) + 10 * int(version[2]):
            self.skipTest(f"the Toolkit is {present}, entries.inc is made from "
                          f"CUDA {version[1]}.{version[2]}")
        made = subprocess.run(
            [sys.executable, STANDIN / "update_entries.py", self.toolkit],
            check=True, capture_output=True, text=True).stdout
        self.assertEqual(made, listed)


def main():
    Abi.toolkit = find_toolkit()
    is_required = os.environ.get("MOIETY_REQUIRE_TOOLKIT", "0") == "1"
    if not Abi.toolkit:
        print("SKIPPED: no CUDA Toolkit in $CUDA_PATH, $CUDA_HOME or "
              "/usr/local/cuda: cuda_abi.h was compared with nothing")
        sys.exit("MOIETY_REQUIRE_TOOLKIT=1: that is a failure"
                 if is_required else 0)
    result = unittest.main(exit=False, verbosity=2).result
    if result.skipped and is_required:
        sys.exit("MOIETY_REQUIRE_TOOLKIT=1: a skip is a failure")
    sys.exit(0 if result.wasSuccessful() else 1)


if __name__ == "__main__":
    main()
