#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Installs into an empty folder and uses the result as a stranger would: with
# pkg-config, with CMake, by the loader. Nothing below looks into the
# repository but for the sources of the programs that it builds.
set -uo pipefail
. tests/gates/expect.sh

sources=$PWD/tests/install
tree=$TEST_TMPDIR/tree
lib=$tree/lib
work=$TEST_TMPDIR/work
mkdir -p "$work"
unset LD_LIBRARY_PATH MOIETY_REQUIRE_GPU PKG_CONFIG_PATH

standin_program='moiety 0.1.0 is_standin 1'
unloaded='status 0, closed 0'
flags=(-std=c11 -Wall -Wextra -Wpedantic -Werror)

# Names, kinds, modes, link targets and contents.
picture() {
    (cd "$1" && find . -printf '%P %y %m %l\n' | sort &&
        find . -type f -print0 | sort -z | xargs -0 sha256sum)
}

flags_of() {
    PKG_CONFIG_PATH=$lib/pkgconfig pkg-config "$@" moiety
}

needed_by() {
    readelf -dW "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' |
        grep -v '^ld-linux' | sort | xargs
}

# $1: a plugin; $2: "" or a library that the program has.
unload() {
    MOIETY_DRIVER=$lib/libmoiety_standin.so "$work/plugin_host" "$@" 2>&1
}

# $1: a plugin.
exported_by() {
    nm -D --defined-only "$1" | awk '{ print $3 }' | grep '^moiety' | xargs
}

test_installing() {
    expect_ok "installs" ./install --prefix "$tree"
    picture "$tree" >"$work/first"
    expect_ok "installs a second time" ./install --prefix="$tree"
    picture "$tree" >"$work/second"
    expect_ok "the second time changes nothing" \
        diff "$work/first" "$work/second"
    expect_ok "takes a relative prefix" \
        env BUILD_WORKING_DIRECTORY="$work" ./install --prefix relative
    expect_ok "puts it below the user's folder" \
        test -e "$work/relative/lib/libmoiety.so"
    expect_ok "installs below --destdir" \
        ./install --prefix /opt/moiety --destdir "$work/stage"
    expect_ok "and keeps it out of the files" \
        grep -qx prefix=/opt/moiety \
        "$work/stage/opt/moiety/lib/pkgconfig/moiety.pc"
}

test_bad_arguments() {
    touch "$work/a_file"
    expect_refusal "no prefix" "--prefix is missing" ./install
    expect_refusal "an empty prefix" "--prefix needs a folder" \
        ./install --prefix ''
    expect_refusal "an unknown argument" "unknown argument '--perfix'" \
        ./install --perfix /tmp
    expect_refusal "the checkout as prefix" "is the checkout" \
        env BUILD_WORKSPACE_DIRECTORY="$work" ./install --prefix "$work/"
    expect_refusal "a file as prefix" "cannot make the folder" \
        ./install --prefix "$work/a_file"
    expect_refusal "a prefix that pkg-config cannot say" "has a blank" \
        ./install --prefix "$work/two words"
}

test_libraries() {
    expect_ok "the exports are the committed ones" \
        tests/abi/check_abi.sh "$lib/libmoiety.so" \
        pool/install/libmoiety.map tests/abi/symbols.txt \
        "$tree"/include/moiety/*.h
    expect_ok "nm -D shows the versions" \
        grep -q 'T moiety_probe@@MOIETY_0.1' <(nm -D "$lib/libmoiety.so")
    expect_text "it needs the C library and hwloc and no more" \
        "libc.so.6 libhwloc.so.15" "$(needed_by "$lib/libmoiety.so")"
    expect_text "and the loader finds them" "" \
        "$(ldd "$lib/libmoiety.so" 2>&1 | grep 'not found')"
    expect_text "every global name in the archive has our prefix" "" \
        "$(nm -g --defined-only "$lib/libmoiety.a" 2>&1 |
            awk 'NF == 3 && $3 !~ /^moiety(i)?_/ { print $3 }' | xargs)"
    expect_text "the stand-in is one file" 1 \
        "$(find "$lib" -type f \( -name 'libcuda*' -o -name '*standin*' \) |
            wc -l)"
    expect_text "with the driver's soname" "libcuda.so.1" \
        "$(readelf -dW "$lib/libmoiety_standin.so" |
            sed -n 's/.*(SONAME).*\[\(.*\)\]/\1/p')"
    expect_text "and needs the C library alone" "libc.so.6" \
        "$(needed_by "$lib/libmoiety_standin.so")"
}

# It loads no driver, so it keeps memory that a driver cannot harm.
test_keeper() {
    expect_text "the keeper needs the C library alone" "libc.so.6" \
        "$(needed_by "$tree/bin/moiety-serve")"
    expect_ok "it says how it is used" grep -q '^usage: moiety-serve' \
        <("$tree/bin/moiety-serve" --help)
    expect_refusal "it drains no keeper that is not there" "no keeper answers" \
        "$tree/bin/moiety-serve" --socket nowhere --drain
}

test_headers() {
    expect_ok "a header of a folder lies in its folder" \
        test -e "$tree/include/moiety/stacks/tensorrt.hpp" \
        -a -e "$tree/include/moiety/cxx/pool.hpp"
    expect_ok "every header compiles alone" \
        tests/c_api/check_headers_alone.sh "$tree/include"
}

# shellcheck disable=SC2046 # flags are to be split
test_pkg_config() {
    expect_text "pkg-config knows the version" 0.1.0 \
        "$(flags_of --modversion)"
    expect_ok "a C program builds with pkg-config" \
        cc "${flags[@]}" "$sources/consumer.c" -o "$work/shared" \
        $(flags_of --cflags --libs)
    expect_text "it runs on the installed stand-in" "$standin_program" \
        "$(MOIETY_DRIVER=standin LD_LIBRARY_PATH=$lib "$work/shared" 2>&1)"
    expect_text "it needs our soname" "libc.so.6 libmoiety.so.0" \
        "$(needed_by "$work/shared")"
    # Ours is the archive; hwloc's would want all that hwloc is made of.
    expect_ok "a C program links the archive with pkg-config --static" \
        cc "${flags[@]}" "$sources/consumer.c" -o "$work/static" \
        $(flags_of --cflags) \
        $(flags_of --static --libs | sed 's/-lmoiety/-l:libmoiety.a/')
    expect_text "it needs no library of ours" "libc.so.6 libhwloc.so.15" \
        "$(needed_by "$work/static")"
    expect_text "it runs on the installed stand-in too" "$standin_program" \
        "$(MOIETY_DRIVER=$lib/libmoiety_standin.so "$work/static" 2>&1)"
    expect_ok "so does a plugin" \
        cc "${flags[@]}" -shared -fPIC "$sources/plugin.c" \
        -o "$work/plugin.so" $(flags_of --cflags) \
        $(flags_of --static --libs | sed 's/-lmoiety/-l:libmoiety.a/')
    expect_ok "and there is a program that unloads it" \
        cc "${flags[@]}" -D_GNU_SOURCE "$sources/plugin_host.c" \
        -o "$work/plugin_host" -ldl -pthread
    expect_text "its threads end after it was unloaded" "$unloaded" \
        "$(unload "$work/plugin.so")"
    expect_text "it exports nothing of ours" "" \
        "$(exported_by "$work/plugin.so")"
    expect_text "it uses its own copy beside a program's library" "$unloaded" \
        "$(unload "$work/plugin.so" "$lib/libmoiety.so")"
}

test_cmake() {
    expect_ok "CMake finds the tree" \
        cmake -S "$sources/cmake_consumer" -B "$work/cmake" \
        -DCMAKE_PREFIX_PATH="$tree" -DCMAKE_C_FLAGS="${flags[*]}"
    expect_ok "CMake builds both consumers" cmake --build "$work/cmake"
    expect_text "the shared one runs" "$standin_program" \
        "$(MOIETY_DRIVER=standin "$work/cmake/shared_consumer" 2>&1)"
    expect_text "the static one runs" "$standin_program" \
        "$(MOIETY_DRIVER=$lib/libmoiety_standin.so \
            "$work/cmake/static_consumer" 2>&1)"
    expect_text "threads end after the plugin was unloaded" "$unloaded" \
        "$(unload "$work/cmake/libplugin.so")"
    expect_text "CMake's plugin exports nothing of ours" "" \
        "$(exported_by "$work/cmake/libplugin.so")"
    expect_text "and uses its own copy beside a program's library" "$unloaded" \
        "$(unload "$work/cmake/libplugin.so" "$lib/libmoiety.so")"
    sed 's/Moiety 0.1/Moiety 7.0/' "$sources/cmake_consumer/CMakeLists.txt" |
        sed "s,\.\./,$sources/," \
            >"$work/CMakeLists.txt"
    expect_refusal "CMake refuses another version" "7.0" \
        cmake -S "$work" -B "$work/cmake7" -DCMAKE_PREFIX_PATH="$tree"
}

# The first block of C in the README is the heart of a program that works.
# shellcheck disable=SC2046 # flags are to be split
test_readme_example() {
    {
        printf '%s\n' '#include <moiety/moiety.h>' 'int main(void)' '{' \
            'moiety_pool *pool;' 'moiety_devptr block;' 'size_t bytes = 100;' \
            'moiety_stream stream = MOIETY_STREAM_LEGACY;'
        awk '/^```c$/ { on = 1; next } /^```/ { if (on) exit } on' README.md
        printf '%s\n' 'return moiety_pool_destroy(pool, NULL);' '}'
    } >"$work/readme.c"
    expect_ok "the README has an example in C" grep -q 'moiety_free(pool' \
        "$work/readme.c"
    # It leaves the statuses out.
    expect_ok "it builds against the installed tree" \
        cc "${flags[@]}" -Wno-unused-result "$work/readme.c" \
        -o "$work/readme" $(flags_of --cflags --libs)
    expect_ok "it runs on the stand-in" \
        env MOIETY_DRIVER=standin LD_LIBRARY_PATH="$lib" "$work/readme"
}

test_installing
test_bad_arguments
test_libraries
test_keeper
test_headers
test_pkg_config
test_cmake
test_readme_example
finish
