# SPDX-License-Identifier: Apache-2.0
"""Tests with named steps, on a pool with one change for the worse."""

load("@rules_cc//cc:defs.bzl", "cc_binary")
load("//tests/streams:mutants.bzl", "changed_source", "mutant_test")
load("//tests/support:gtest.bzl", "gtest", "gtest_library")

def step_gtest(name, more = []):
    """The library `name` of `name`_test.cc, and that test, on a pool with steps.

    Args:
      name: of the library
      more: its dependencies, beside the pool and the stage
    """
    gtest_library(
        name = name,
        deps = more + [
            "//pool/driver:cuda_abi",
            "//pool/include:headers",
            "//tests/progress:freeze",
            "//tests/progress:pool_with_steps",
            "//tests/support/tools:pools",
            "//tests/support/tools:stage",
        ],
    )
    gtest(name = name + "_test", tests = ":" + name)

def step_mutant(name, file, change, tests, test):
    """The test NAME_test: in a program with the change, `test` fails.

    The object of the changed file comes before the library's, which is then not
    linked.

    Args:
      name: of the change
      file: a .c file of the pool
      change: a script for sed -E, without single quotes
      tests: a library with the test, on //tests/progress:pool_with_steps
      test: the test's full name
    """
    changed_source(name, file, change)
    cc_binary(
        name = name,
        testonly = True,
        srcs = [name + ".c"],
        copts = ["-w"],
        # It includes what the file that it replaces includes.
        features = ["-layering_check"],
        local_defines = ["MOIETYI_STEPS=1"],
        deps = [
            tests,
            "//tests/progress:pool_with_steps",
            "@googletest//:gtest_main",
        ],
    )
    mutant_test(name, test)

def step_mutants(mutants, tests):
    """A step_mutant() for each of a dictionary.

    Args:
      mutants: from names to file, change and test
      tests: the library with the tests
    """
    for name, (file, change, test) in mutants.items():
        step_mutant(
            name = name,
            change = change,
            file = file,
            test = test,
            tests = tests,
        )
