# SPDX-License-Identifier: Apache-2.0
"""Programs that are the rule tests on a pool with one change for the worse."""

load("@rules_cc//cc:defs.bzl", "cc_binary")
load("@rules_shell//shell:sh_test.bzl", "sh_test")

def _headers_of_impl(ctx):
    headers = [file for file in ctx.files.srcs if file.extension == "h"]
    return [DefaultInfo(files = depset(headers))]

_headers_of = rule(
    implementation = _headers_of_impl,
    attrs = {"srcs": attr.label_list(allow_files = True)},
    doc = "The headers among some files.",
)

# $(SRCS) are all files of the folder.
_COPY = """
for file in $(SRCS); do
    case $$file in */{file}) break ;; esac
done
cp $$file $@
"""

# A change that does not apply, or no longer, fails the build.
_CHANGE = """
sed -E '{change}' $@ >$@.changed
if cmp -s $@ $@.changed; then
    echo '{name}: a change does not apply to {file}' >&2
    exit 1
fi
mv $@.changed $@
"""

def changed_source(name, file, change):
    """The file `name`.c: that one with a change.

    Args:
      name: of the change
      file: a .c file of the pool
      change: a script for sed -E, without single quotes, or a list of them,
        each of which has to apply

    Returns:
      the files that it is one of
    """
    folder, base = file.rsplit("/", 1)
    changes = change if type(change) == "list" else [change]
    sources = "//%s:source_files" % folder
    native.genrule(
        name = name + "_source",
        testonly = True,
        srcs = [sources],
        outs = [name + ".c"],
        cmd = _COPY.format(file = base) + "".join([
            _CHANGE.format(
                name = name,
                file = base,
                change = one.replace("$", "$$"),
            )
            for one in changes
        ]),
    )
    return sources

def mutant(name, file, change, tests = ":rows"):
    """The program `name`.

    Everything but the changed file is what the tests link anyway: of two
    definitions the linker takes the first, and a program's own come first.

    Args:
      name: of the program
      file: a .c file of the pool
      change: as of changed_source()
      tests: what it runs
    """
    sources = changed_source(name, file, change)
    _headers_of(
        name = name + "_headers",
        testonly = True,
        srcs = [sources],
    )
    cc_binary(
        name = name,
        testonly = True,
        srcs = [
            name + ".c",
            name + "_headers",
        ],
        # Whatever is unused now need not be mentioned.
        copts = ["-w"],
        # It includes what the file that it replaces includes.
        features = ["-layering_check"],
        linkopts = ["-Wl,--allow-multiple-definition"],
        # As the packages of numa compile their files.
        local_defines = ["_GNU_SOURCE"] if file.startswith("numa/") else [],
        deps = [
            tests,
            "//pool:moiety",
        ],
    )

def mutant_test(name, test, data = [], size = "small"):
    """The test `name`_test: that a test fails in the program `name`.

    What a sanitizer makes of a mutant is its own, so none is built for one.

    Args:
      name: of a mutant of the same package
      test: of the program's, in full
      data: what it needs besides
      size: of the test
    """
    sh_test(
        name = name + "_test",
        size = size,
        srcs = ["//tests/pool:check_mutant.sh"],
        args = [
            "$(rootpath :%s)" % name,
            test,
        ],
        data = [":" + name] + data,
        tags = ["no-sanitizer"],
    )

def tested_mutant(name, file, change, tests, test, data = [], size = "small"):
    """The test `name`_test: that a test fails in a mutant of its own.

    Args:
      name: of the change
      file: a .c file of the pool
      change: as of changed_source()
      tests: a library with the test
      test: the test's full name
      data: what it needs besides
      size: of the test
    """
    mutant(name, file, change, tests)
    mutant_test(name, test, data, size)
