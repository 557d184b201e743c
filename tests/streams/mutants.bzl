# SPDX-License-Identifier: Apache-2.0
"""Programs that are the rule tests on a pool with one change for the worse."""

load("@rules_cc//cc:defs.bzl", "cc_binary")
load("@rules_shell//shell:sh_test.bzl", "sh_test")

_STANDIN = "//pool/standin:libcuda.so.1"

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

def _idle_function(name, function, result):
    native.genrule(
        name = name + "_source",
        testonly = True,
        outs = [name + ".c"],
        cmd = "echo 'long %s(void) { return %s; }' >$@" % (function, result),
    )

def mutant(name, file, change, tests = ":rows"):
    """The program `name`.

    Everything but the changed file is what the tests link anyway: of two
    definitions the linker takes the first, and a program's own come first.

    Args:
      name: of the program
      file: a .c file of the pool; or a function, which callers in other files
        find idle: no text has to match
      change: as of changed_source(); or what the idle function returns
      tests: what it runs
    """
    srcs = [name + ".c"]
    if file.endswith(".c"):
        sources = changed_source(name, file, change)
        _headers_of(
            name = name + "_headers",
            testonly = True,
            srcs = [sources],
        )
        srcs.append(name + "_headers")
    else:
        _idle_function(name, file, change)
    cc_binary(
        name = name,
        testonly = True,
        srcs = srcs,
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
      file: as of mutant()
      change: as of mutant()
      tests: a library with the test
      test: the test's full name
      data: what it needs besides
      size: of the test
    """
    mutant(name, file, change, tests)
    mutant_test(name, test, data, size)

def tested_mutants(mutants, tests = None, data = [], size = "small"):
    """A tested_mutant() for each of a list or a dictionary.

    Args:
      mutants: tuples of name, file, change, tests and test, or a dictionary
        from names to the rest; without `tests` if these are the same for all.
        A library of this package needs no colon.
      tests: the library with the tests of all of them
      data: what they need besides
      size: of the tests
    """
    items = mutants.items() if type(mutants) == "dict" else [
        (mutant[0], mutant[1:])
        for mutant in mutants
    ]
    for name, rest in items:
        library = tests or rest[2]
        tested_mutant(
            name = name,
            file = rest[0],
            change = rest[1],
            tests = library if library[0] in ":/" else ":" + library,
            test = rest[-1],
            data = data,
            size = size,
        )

def mutants_test(name, mutants, control, tests = ":rows", args = []):
    """The test `name`: in each of the mutants, which it makes, a test fails.

    The programs' main() has to know the driver's file: mutants.sh runs them.

    Args:
      name: of the test
      mutants: a dictionary from names to file, change and the test that fails
      control: the same tests on the pool as it is
      tests: the library with the tests
      args: beside the driver, for all of them
    """
    for mutant_name, (file, change, _) in mutants.items():
        mutant(
            name = mutant_name,
            change = change,
            file = file,
            tests = tests,
        )
    sh_test(
        name = name,
        size = "medium",
        srcs = ["//tests/streams:mutants.sh"],
        args = [
            "--driver=$(rootpath %s)" % _STANDIN,
            "--control=$(rootpath :%s)" % control,
        ] + args + [
            "$(rootpath :%s)=%s" % (mutant_name, test)
            for mutant_name, (_, _, test) in mutants.items()
        ],
        data = [
            _STANDIN,
            ":" + control,
        ] + [":" + mutant_name for mutant_name in mutants],
        # The mutants are not built for sanitizers to judge.
        tags = ["no-sanitizer"],
    )
