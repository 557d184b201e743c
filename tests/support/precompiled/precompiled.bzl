# SPDX-License-Identifier: Apache-2.0
"""Headers that GCC has read already.

The object of a library that is compiled with `-x c++-header` is the compiled header:
it gets the flags that tests get, and GCC takes no other.
"""

load("@rules_cc//cc:find_cc_toolchain.bzl", "CC_TOOLCHAIN_ATTRS", "find_cc_toolchain", "use_cc_toolchain")
load("@rules_cc//cc/common:cc_info.bzl", "CcInfo")

# Bazel hears of the headers, as if a test included them. --config=strict refuses
# a test that GCC does not take the compiled header for.
_OPTIONS = "-include %s -fpch-deps -Winvalid-pch\n"

def _object_of(library):
    inputs = library[CcInfo].linking_context.linker_inputs.to_list()
    own = [one for one in inputs if one.owner == library.label][0].libraries[0]
    return (own.pic_objects or own.objects)[0]

def _precompiled_impl(ctx):
    header = ctx.actions.declare_file(ctx.label.name + ".h")
    compiled = ctx.actions.declare_file(header.basename + ".gch", sibling = header)
    options = ctx.actions.declare_file(ctx.label.name + ".options")
    clang = "clang" in find_cc_toolchain(ctx).compiler_executable
    ctx.actions.symlink(output = header, target_file = ctx.file.text)
    ctx.actions.symlink(output = compiled, target_file = _object_of(ctx.attr.library))
    ctx.actions.write(options, "" if clang else _OPTIONS % header.path)
    files = [options] if clang else [options, header, compiled, ctx.file.text]
    return [DefaultInfo(files = depset(files))]

precompiled = rule(
    implementation = _precompiled_impl,
    attrs = dict(
        library = attr.label(mandatory = True, providers = [CcInfo]),
        text = attr.label(mandatory = True, allow_single_file = True),
        **CC_TOOLCHAIN_ATTRS
    ),
    toolchains = use_cc_toolchain(),
    doc = "`name`.options for GCC, by which a file gets `text`, the source of `library`.",
)
