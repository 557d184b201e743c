#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Shows that the build refuses what it is there to refuse: a workspace of a few
# bad files is built by Bazel itself, with this repository's own .bazelrc.
set -uo pipefail
. tests/gates/expect.sh

# Bazel's view of third_party/ cannot be had as data (those folders are
# workspaces of their own), so it is copied from the checkout.
checkout=$(dirname "$(readlink -f WORKSPACE)")
toy=$TEST_TMPDIR/toy
mkdir -p "$toy/hidden" "$toy/include"
cp -r "$checkout"/{WORKSPACE,.bazelrc,third_party,bazelw} "$toy"
cp -L tests/gates/optimised_test.c "$toy"
cp -rL pool/include/moiety "$toy/include"
cd "$toy" || exit 1

toy_bazel() {
    ./bazelw --nohome_rc --output_user_root="$TEST_TMPDIR/bazel" "$@"
}
trap 'toy_bazel shutdown' EXIT

bazel_build() {
    toy_bazel build --jobs=1 --spawn_strategy=local --color=no --curses=no "$@"
}

cat >good.c <<'EOF'
#include <moiety/probe.h>
int good_device_count(void);
int good_device_count(void)
{
    moiety_caps caps = {.struct_size = sizeof caps};
    return moiety_probe(0, &caps) == MOIETY_OK ? caps.device_count : 0;
}
EOF
cat >dropped_status.c <<'EOF'
#include <moiety/probe.h>
void dropped_status(moiety_caps *caps);
void dropped_status(moiety_caps *caps)
{
    moiety_probe(0, caps);
}
EOF
cat >no_prototype.c <<'EOF'
int no_prototype(void)
{
    return 0;
}
EOF
cat >undefined_macro.c <<'EOF'
#if MOIETY_NO_SUCH_FEATURE
#endif
typedef int not_empty;
EOF
cat >narrowing.c <<'EOF'
#include <stddef.h>
int narrowing(size_t size_bytes);
int narrowing(size_t size_bytes)
{
    return size_bytes;
}
EOF
cat >shadowing.c <<'EOF'
int shadowing(int depth);
int shadowing(int depth)
{
    if (depth > 0) {
        int depth = 1;
        return depth;
    }
    return 0;
}
EOF
echo 'typedef int bottom_int;' >bottom.h
echo '#include "bottom.h"' >middle.h
printf '#include "middle.h"\ntypedef bottom_int top_int;\n' >declared.c
printf '#include "bottom.h"\ntypedef bottom_int top_int;\n' >undeclared.c

cat >BUILD <<'EOF'
load("@rules_cc//cc:defs.bzl", "cc_binary", "cc_library")
[cc_library(name = name, srcs = [name + ".c"], deps = ["//include:headers"])
 for name in ["good", "dropped_status", "no_prototype", "undefined_macro",
              "narrowing", "shadowing"]]
cc_library(name = "bottom", hdrs = ["bottom.h"])
cc_library(name = "middle", hdrs = ["middle.h"], deps = [":bottom"])
cc_library(name = "declared", srcs = ["declared.c"], deps = [":middle"])
cc_library(name = "undeclared", srcs = ["undeclared.c"], deps = [":middle"])
cc_library(name = "trespasser", deps = ["//hidden"])
cc_binary(name = "optimised_test", srcs = ["optimised_test.c"])
EOF
cat >include/BUILD <<'EOF'
load("@rules_cc//cc:defs.bzl", "cc_library")
cc_library(
    name = "headers",
    hdrs = glob(["moiety/*.h"]),
    includes = ["."],
    visibility = ["//visibility:public"],
)
EOF
cat >hidden/BUILD <<'EOF'
load("@rules_cc//cc:defs.bzl", "cc_library")
package(default_visibility = ["//visibility:private"])
cc_library(name = "hidden")
EOF

expect_ok "strict: a good file builds" \
    bazel_build --config=strict //:good
expect_refusal "strict: a dropped status" "-Werror=unused-result" \
    bazel_build --config=strict //:dropped_status
expect_refusal "strict: a function without a prototype" \
    "-Werror=missing-prototypes" bazel_build --config=strict //:no_prototype
expect_refusal "strict: a macro that is not defined" "-Werror=undef" \
    bazel_build --config=strict //:undefined_macro
expect_refusal "strict: a silent narrowing" "-Werror=conversion" \
    bazel_build --config=strict //:narrowing
expect_refusal "strict: a shadowed variable" "-Werror=shadow" \
    bazel_build --config=strict //:shadowing

expect_ok "a program of the default configuration builds" \
    bazel_build //:optimised_test
expect_ok "and is optimised" bazel-bin/optimised_test
expect_ok "it builds without optimisation too" \
    bazel_build -c fastbuild //:optimised_test
expect_refusal "and then says so" "compiled without optimisation" \
    bazel-bin/optimised_test

expect_refusal "a package that is not visible" "is not visible" \
    bazel_build //:trespasser

expect_ok "layers: a declared include builds" \
    bazel_build --config=layers //:declared
expect_refusal "layers: an undeclared include" \
    "does not depend on a module exporting" \
    bazel_build --config=layers //:undeclared
expect_ok "strict, clang: a good file builds" \
    bazel_build --config=strict --config=clang //:good
expect_refusal "strict, clang: a dropped status" "-Werror,-Wunused-result" \
    bazel_build --config=strict --config=clang //:dropped_status
finish
