# SPDX-License-Identifier: Apache-2.0
"""Headers of the machine's Python, and of the NumPy in .venv/: whoever builds
nothing of emm/ needs neither."""

_BUILD = """
load("@rules_cc//cc:defs.bzl", "cc_library")

cc_library(
    name = "headers",
    hdrs = glob(["include/**/*.h"]),
    includes = ["include"],
    visibility = ["//visibility:public"],
)
"""

def _link_folder(repository_ctx, python, code):
    found = repository_ctx.execute([python, "-I", "-c", code])
    if found.return_code:
        fail("%s cannot tell where its headers are: %s" %
             (python, found.stderr))
    repository_ctx.symlink(found.stdout.strip(), "include")
    repository_ctx.file("BUILD", _BUILD)

def _python_headers_impl(repository_ctx):
    _link_folder(
        repository_ctx,
        "/usr/bin/python3",
        "import sysconfig; print(sysconfig.get_path('include'))",
    )

def _numpy_headers_impl(repository_ctx):
    checkout = repository_ctx.path(Label("//:WORKSPACE")).dirname
    _link_folder(
        repository_ctx,
        str(checkout) + "/.venv/bin/python",
        "import numpy; print(numpy.get_include())",
    )

python_headers = repository_rule(
    implementation = _python_headers_impl,
    local = True,
)

numpy_headers = repository_rule(
    implementation = _numpy_headers_impl,
    local = True,
)
