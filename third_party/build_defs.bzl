# SPDX-License-Identifier: Apache-2.0
"""One rule that Bazel does not have: an archive of a library and all it needs.

Bazel's own archive of a library holds that library's objects only.
"""

load("@rules_cc//cc:find_cc_toolchain.bzl", "CC_TOOLCHAIN_ATTRS", "find_cc_toolchain", "use_cc_toolchain")
load("@rules_cc//cc/common:cc_info.bzl", "CcInfo")

def _objects_of(dep):
    objects = []
    for linker_input in dep[CcInfo].linking_context.linker_inputs.to_list():
        for library in linker_input.libraries:
            # Position-independent code first: a user may link the archive
            # into a shared library of their own.
            objects.extend(library.pic_objects or library.objects or [])
    return objects

def _merged_archive_impl(ctx):
    toolchain = find_cc_toolchain(ctx)
    objects = _objects_of(ctx.attr.dep)
    if not objects:
        fail("%s brings no objects to merge" % ctx.attr.dep.label)
    archive = ctx.actions.declare_file(ctx.attr.archive)
    args = ctx.actions.args()

    # q, not r: two floors may have a file of the same name. D: the same
    # bytes from the same objects.
    args.add("qcsD")
    args.add(archive)
    args.add_all(objects)
    ctx.actions.run(
        executable = toolchain.ar_executable,
        arguments = [args],
        inputs = depset(objects, transitive = [toolchain.all_files]),
        outputs = [archive],
        mnemonic = "MergeArchive",
        progress_message = "Merging all floors into %s" % archive.short_path,
    )
    return [DefaultInfo(
        files = depset([archive]),
        runfiles = ctx.runfiles(files = [archive]),
    )]

merged_archive = rule(
    implementation = _merged_archive_impl,
    attrs = dict(
        archive = attr.string(mandatory = True, doc = "Name of the file."),
        dep = attr.label(mandatory = True, providers = [CcInfo]),
        **CC_TOOLCHAIN_ATTRS
    ),
    toolchains = use_cc_toolchain(),
    doc = "One static archive with the objects of `dep` and all it needs.",
)
