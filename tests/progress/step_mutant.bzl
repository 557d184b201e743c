# SPDX-License-Identifier: Apache-2.0
"""Tests with named steps, on a pool with one change for the worse."""

load("@rules_cc//cc:defs.bzl", "cc_binary")
load("//tests/streams:mutants.bzl", "mutant_test")

# A change that does not apply, or no longer, fails the build.
_CHANGE = """
for file in $(SRCS); do
    case $$file in */{file}) break ;; esac
done
sed -E '{change}' $$file >$@
if cmp -s $$file $@; then
    echo '{name}: the change does not apply to {file}' >&2
    exit 1
fi
"""

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
    folder, base = file.rsplit("/", 1)
    native.genrule(
        name = name + "_source",
        testonly = True,
        srcs = ["//%s:source_files" % folder],
        outs = [name + ".c"],
        cmd = _CHANGE.format(
            name = name,
            file = base,
            change = change.replace("$", "$$"),
        ),
    )
    cc_binary(
        name = name,
        testonly = True,
        srcs = [name + ".c"],
        copts = ["-w"],
        # It includes what the file that it replaces includes.
        features = ["-layering_check"],
        local_defines = ["BINADEI_STEPS=1"],
        deps = [
            tests,
            "//tests/progress:pool_with_steps",
            "@googletest//:gtest_main",
        ],
    )
    mutant_test(name, test)
