# SPDX-License-Identifier: Apache-2.0
"""What a script makes, as a folder."""

def _made_folder_impl(ctx):
    out = ctx.actions.declare_directory(ctx.label.name)
    ctx.actions.run_shell(
        arguments = [out.path],
        command = ctx.file.script.path + " \"$1\"",
        inputs = ctx.files.srcs + [ctx.file.script],
        mnemonic = "Reference",
        outputs = [out],
        progress_message = "Making %s" % ctx.label,
        use_default_shell_env = True,
    )
    return [DefaultInfo(files = depset([out]))]

made_folder = rule(
    implementation = _made_folder_impl,
    attrs = {
        "script": attr.label(allow_single_file = True, mandatory = True),
        "srcs": attr.label_list(allow_files = True),
    },
    doc = "Runs `script FOLDER` with `srcs` beside it.",
)
