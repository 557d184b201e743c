# SPDX-License-Identifier: Apache-2.0
"""A program that finds the stand-in beside itself: where MOIETY_DRIVER=standin
looks first."""

load("@rules_cc//cc:defs.bzl", "cc_binary")

_STANDIN = "libmoiety_standin.so"

def standin_beside_programs():
    """Once in each package that has such programs."""
    native.genrule(
        name = "standin_beside_programs",
        srcs = ["//pool/standin:libcuda.so.1"],
        outs = [_STANDIN],
        cmd = "cp $< $@",
    )

def program(name, data = [], linkopts = [], visibility = [], **kwargs):
    """A cc_binary that //bench names and the tests run.

    Args:
      name: as of a cc_binary, like the rest.
      data: what it needs beside the stand-in.
      linkopts: beside those of threads and of dlopen().
      visibility: beside //bench and the tests.
      **kwargs: as of a cc_binary.
    """
    cc_binary(
        name = name,
        data = data + [":" + _STANDIN],
        linkopts = linkopts + [
            "-ldl",
            "-lm",
            "-pthread",
        ],
        visibility = visibility + [
            "//bench:__pkg__",
            "//tests:__subpackages__",
        ],
        **kwargs
    )
