# SPDX-License-Identifier: Apache-2.0
"""Tests of GoogleTest, most of them on a pool with the stand-in driver.

What a macro does not name, it passes to cc_test as it is: args, data, env,
linkopts, shard_count, tags, visibility and the like.
"""

load("@rules_cc//cc:defs.bzl", "cc_library", "cc_test")

_GTEST = [
    "//tests/support/precompiled:gtest",
    "@googletest//:gtest",
    "@googletest//:gtest_main",
]

# Options of a file in C++ that depends on GoogleTest, and on the first of _GTEST.
PRECOMPILED = ["@$(BINDIR)/tests/support/precompiled/files.options"]

_POOL = [
    "//pool/driver:cuda_abi",
    "//pool/include:headers",
    "//tests/pool:pool_under_test",
    "//tests/support/tools:pools",
]

_STANDIN = "//pool/standin:libcuda.so.1"

def _deps_of(deps, more):
    return (_POOL if deps == None else deps) + (more or []) + _GTEST

def _copts_of(srcs):
    # A file in C cannot include it.
    in_c = [src for src in srcs if src.endswith(".c")]
    return [] if in_c else PRECOMPILED

def gtest(
        name,
        size = "small",
        tests = None,
        srcs = None,
        deps = None,
        more = None,
        **kwargs):
    """The test `name`, of the file `name`.cc or of a library that has the tests.

    Args:
      name: of the test.
      size: as of any test.
      tests: a library with the tests and their main(), perhaps of another
        package; then there are no `srcs`.
      srcs: if they are not just `name`.cc.
      deps: beside GoogleTest, which a test with `srcs` always gets; the pool
        under test, and what its tests include, if none are named.
      more: beside those.
      **kwargs: as of a cc_test.
    """
    if tests:
        cc_test(name = name, size = size, deps = [tests] + (deps or []), **kwargs)
        return
    srcs = [name + ".cc"] if srcs == None else srcs
    cc_test(
        name = name,
        size = size,
        srcs = srcs,
        copts = _copts_of(srcs),
        deps = _deps_of(deps, more),
        **kwargs
    )

def gtests(names, **kwargs):
    """A gtest() for each name, which have everything else in common.

    Args:
      names: of the tests.
      **kwargs: as of gtest().
    """
    for name in names:
        gtest(name = name, **kwargs)

def gtest_library(name, srcs = None, deps = None, more = None, **kwargs):
    """A library with the tests of `name`_test.cc, for tests and mutants to link.

    Args:
      name: of the library.
      srcs: if they are not just `name`_test.cc.
      deps: as of gtest().
      more: as of gtest().
      **kwargs: as of a cc_library.
    """
    srcs = [name + "_test.cc"] if srcs == None else srcs
    cc_library(
        name = name,
        testonly = True,
        srcs = srcs,
        copts = _copts_of(srcs),
        deps = _deps_of(deps, more),
        alwayslink = True,
        **kwargs
    )

def mutable_gtest(
        name,
        size = "small",
        srcs = None,
        deps = None,
        more = None,
        linkopts = None,
        visibility = None,
        **kwargs):
    """The gtest_library() `name` and the test `name`_test of it.

    Args:
      name: of the library.
      size: of the test.
      srcs: of the library.
      deps: of the library.
      more: of the library.
      linkopts: of the library.
      visibility: of the library.
      **kwargs: of the test.
    """
    gtest_library(
        name = name,
        srcs = srcs,
        deps = deps,
        more = more,
        linkopts = linkopts,
        visibility = visibility,
    )
    gtest(name = name + "_test", size = size, tests = ":" + name, **kwargs)

def mutable_gtests(names, **kwargs):
    """A mutable_gtest() for each name, which have everything else in common.

    Args:
      names: of the libraries.
      **kwargs: as of mutable_gtest().
    """
    for name in names:
        mutable_gtest(name = name, **kwargs)

def standin_gtest(name, tests, args = [], **kwargs):
    """The test `name` of a library whose main() has to know the driver's file.

    On a GPU host the same library runs without arguments.

    Args:
      name: of the test.
      tests: the library.
      args: beside the driver.
      **kwargs: as of gtest().
    """
    gtest(
        name = name,
        tests = tests,
        args = ["--driver=$(rootpath %s)" % _STANDIN] + args,
        data = [_STANDIN],
        **kwargs
    )

def gpu_gtest(name, tests):
    """The test `name`_test on the stand-in, and `name`_gpu_test on a GPU.

    The bundle for GPU hosts carries the former, and runs it without arguments.

    Args:
      name: of the tests, without the suffix.
      tests: as of standin_gtest().
    """
    standin_gtest(
        name = name + "_test",
        tests = tests,
        visibility = ["//tests:__pkg__"],
    )
    gtest(
        name = name + "_gpu_test",
        tests = tests,
        tags = ["gpu"],
    )

def test_library(name, **kwargs):
    """A library for tests, whose header is `name`.h.

    Args:
      name: of the library.
      **kwargs: as of a cc_library.
    """
    srcs = kwargs.pop("srcs", [])
    deps = kwargs.pop("deps", [])
    of_gtest = srcs and "@googletest//:gtest" in deps
    cc_library(
        name = name,
        testonly = True,
        srcs = srcs,
        hdrs = [name + ".h"],
        copts = _copts_of(srcs) if of_gtest else [],
        deps = deps + (_GTEST[:1] if of_gtest else []),
        **kwargs
    )

def probe(name, **kwargs):
    """The library `name` of `name`.c: it shows a part of the pool to any test.

    Args:
      name: of the library.
      **kwargs: as of a cc_library.
    """
    test_library(
        name = name,
        srcs = [name + ".c"],
        visibility = ["//tests:__subpackages__"],
        **kwargs
    )
