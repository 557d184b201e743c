#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# bazelw on machines that are not this one: PATH holds nothing but what each
# case puts there, so every program that bazelw asks for is ours.
set -uo pipefail
. tests/gates/expect.sh

machine=
machine_count=0
log=

# A machine with the programs of every Linux system and no other.
bare_machine() {
    local program
    machine_count=$((machine_count + 1))
    machine=$TEST_TMPDIR/machine$machine_count
    log=$machine/log
    mkdir -p "$machine/bin" "$machine/checkout"
    touch "$log"
    cp "$(readlink -f bazelw)" "$machine/checkout/bazelw"
    for program in bash cat chmod dirname echo env grep id mkdir mv readlink \
        rm sed sha256sum tar true xargs; do
        cp "$(type -P "$program")" "$machine/bin"
    done
}

# $1: name; standard input: the script, after its first line.
program() {
    {
        echo '#!/bin/bash'
        cat
    } >"$machine/bin/$1"
    chmod +x "$machine/bin/$1"
}

# Compilers that find every header, and the other tools of a build.
with_build_tools() {
    local name
    for name in gcc g++ pkg-config; do
        program "$name" <<<'exit 0'
    done
    program bazel <<<'echo "bazel $* [${USE_BAZEL_VERSION:-unset}]"'
}

with_test_tools() {
    local name
    with_build_tools
    for name in clang-format clang-tidy cmake make git spin busybox cpio \
        chromium qemu-system-x86_64 python; do
        program "$name" <<<'exit 0'
    done
    mkdir -p "$machine/clang/lib/any"
    touch "$machine/clang/lib/any/libclang_rt.fuzzer.a"
    program clang <<<"echo '$machine/clang'"
}

# A Python of the machine, wherever the other is; with it goes a pip that writes
# down what it is asked. What pip installs is pinned for it.
with_python() {
    without_python
    mkdir -p "$machine/checkout/emm"
    echo '# ours' >"$machine/checkout/emm/requirements-test-cp399.txt"
    cat >"$machine/python3" <<EOF
#!/bin/bash
case "\$*" in
"-m venv --clear "*)
    mkdir -p "\$4/bin"
    printf '#!/bin/bash\necho "pip \$*" >>"$log"\n' >"\$4/bin/pip"
    chmod +x "\$4/bin/pip" ;;
*requirements-test*) echo requirements-test-cp399.txt ;;
esac
EOF
    chmod +x "$machine/python3"
}

without_python() {
    sed -i "s|^python=.*|python=$machine/python3|" "$machine/checkout/bazelw"
}

# Package sources that have a kernel, from the $1th download on; before it, the
# lists are too old. dpkg-deb shows what is in the package.
with_kernel() {
    with_test_tools
    mkdir -p "$machine/checkout/tests/numa_vm" "$machine/deb/boot"
    echo image >"$machine/deb/boot/vmlinuz-6.1"
    program apt-cache <<<'echo "Depends: linux-image-6.1 (= 6.1.7-2)"'
    program apt-get <<EOF
echo "apt-get \$*" >>"$log"
[ "\$2" = download ] || exit 0
[ "\$(grep -c download "$log")" -ge $1 ] || { echo "E: 404" >&2; exit 100; }
echo >"\$3.deb"
EOF
    program dpkg-deb <<<"exec tar -C '$machine/deb' -c ./boot/vmlinuz-6.1"
}

# An apt-get that writes down what it is asked and installs a bazel, unless
# the machine is told that it only pretends.
with_apt() {
    program apt-get <<EOF
echo "apt-get \$*" >>"$log"
[ -z "\${FAIL_APT:-}" ] || { echo "E: no network"; exit 100; }
case " \$* " in
*" install "*)
    [ -n "\${PRETEND:-}" ] && exit 0
    for name in bazel gcc g++ pkg-config; do
        printf '#!/bin/bash\necho "\$0 ran"\n' >"$machine/bin/\${name}"
        chmod +x "$machine/bin/\${name}"
    done ;;
esac
EOF
}

as_user() {
    program id <<<'echo 1000'
    rm -f "$machine/bin/sudo"
}

as_root() {
    program id <<<'echo 0'
}

bazelw() {
    env -i PATH="$machine/bin" HOME="$machine" ${extra:-} \
        "$machine/checkout/bazelw" "$@"
}

extra=
bare_machine
with_build_tools
expect_ok "nothing missing: runs bazel" bazelw build //pool
expect_text "with the arguments and no other word" \
    "bazel build //pool [unset]" "$expect_output"
bazelw build //pool >"$machine/out" 2>"$machine/err"
expect_text "quietly" "" "$(cat "$machine/err")"
expect_text "nothing was installed" "" "$(cat "$log")"
touch "$machine/bin/bazel-4"
chmod +x "$machine/bin/bazel-4"
expect_text "tells Debian's wrapper which bazel" \
    "bazel --batch run //bench:host [4]" \
    "$(bazelw --batch run //bench:host 2>&1)"
extra=USE_BAZEL_VERSION=7
expect_text "unless the user has" "bazel version [7]" "$(bazelw version 2>&1)"
extra=

bare_machine
expect_text "a query needs bazel alone" "bazel-bootstrap" \
    "$(bazelw --print-missing query //... 2>&1 | xargs)"
expect_text "a program needs what a build needs" \
    "bazel-bootstrap gcc libc6-dev g++ pkg-config libhwloc-dev" \
    "$(bazelw --print-missing run //bench:host -- test 2>&1 | xargs)"
expect_text "options are not commands" \
    "$(bazelw --print-missing run //bench:host 2>&1)" \
    "$(bazelw --print-missing --test=x run --config=test //bench:host 2>&1)"
expect_ok "a test needs more" grep -qx clang-format \
    <<<"$(bazelw --print-missing test //pool:x 2>&1)"
expect_text "building all needs what tests need" \
    "$(bazelw --print-missing test 2>&1)" \
    "$(bazelw --print-missing build //... 2>&1)"

expect_ok "a test needs an emulator" grep -qx qemu-system-x86 \
    <<<"$(bazelw --print-missing test //pool:x 2>&1)"

without_python
needed="bazel-bootstrap gcc libc6-dev g++ pkg-config libhwloc-dev"
expect_text "the demo needs a build and Python" \
    "$needed python3-dev python3-venv" \
    "$(bazelw --print-missing run //bench:demo -- test //... 2>&1 | xargs)"
expect_text "to be built too" "$needed python3-dev python3-venv" \
    "$(bazelw --print-missing build -c opt //pool bench:demo 2>&1 | xargs)"
expect_text "also with what is beside it" "$needed python3-dev python3-venv" \
    "$(bazelw --print-missing build //bench/... 2>&1 | xargs)"
expect_text "a build does without" "$needed" \
    "$(bazelw --print-missing build //pool //bench:host 2>&1 | xargs)"
all=$(bazelw --print-missing test 2>&1)
for words in "//bench:demo //tests/docs:x" "//bench:demo //..."; do
    expect_text "all that tests need: $words" "$all" \
        "$(bazelw --print-missing build $words 2>&1)"
done
expect_text "unless it is a query" "bazel-bootstrap" \
    "$(bazelw --print-missing --output_base tests/x query //... 2>&1 | xargs)"

expect_refusal "no apt-get" "has no apt-get" bazelw run //bench:host
expect_ok "says the exact names" grep -q \
    "bazel-bootstrap gcc libc6-dev g++ pkg-config libhwloc-dev" \
    <<<"$expect_output"
bazelw run //bench:host >/dev/null 2>&1
expect_text "and the exit status is 1" 1 $?

with_apt
as_user
expect_refusal "not root, no sudo" "run, as root, apt-get install bazel" \
    bazelw run //bench:host
program sudo <<<'exit 1'
expect_refusal "a sudo that would ask" "run, as root, apt-get install bazel" \
    bazelw run //bench:host
expect_text "nothing was tried" "" "$(cat "$log")"

as_root
extra=FAIL_APT=1
expect_refusal "apt-get that fails" "E: no network" bazelw run //bench:host
extra=PRETEND=1
expect_refusal "apt-get that says yes and does nothing" "is still missing" \
    bazelw run //bench:host
extra=
: >"$log"
expect_ok "root: installs, then runs bazel" bazelw run //bench:host
expect_text "asks apt-get twice: update, install" "2" "$(wc -l <"$log")"
expect_ok "without a question" grep -q -- '-qq -y ' "$log"
expect_ok "a second time" bazelw run //bench:host
expect_text "asks nothing more" "2" "$(wc -l <"$log")"

bare_machine
with_apt
as_user
program sudo <<<'shift; exec "$@"'
expect_ok "sudo that does not ask: installs" bazelw run //bench:host
expect_text "through it" "2" "$(wc -l <"$log")"

bare_machine
as_root
with_kernel 1
kernel=$machine/checkout/.kernel
expect_ok "a build fetches no kernel" bazelw build //pool
expect_text "nothing was fetched" "" "$(cat "$log")"
expect_ok "a test fetches one" bazelw test //pool
expect_text "downloads what the package without a version depends on" \
    "apt-get -qq download linux-image-6.1=6.1.7-2" "$(cat "$log")"
expect_text "keeps the image and nothing else" "vmlinuz: image" \
    "$(cd "$kernel" && echo "$(echo *): $(cat -- *)")"
expect_ok "a second time" bazelw test //pool
expect_text "downloads nothing more" "1" "$(wc -l <"$log")"

bare_machine
as_root
with_kernel 2
expect_ok "lists that are too old" bazelw test //pool
expect_text "are made new" "apt-get -qq update" "$(sed -n 2p "$log")"
expect_text "and serve" "image" "$(cat "$machine/checkout/.kernel/vmlinuz")"

bare_machine
as_root
with_kernel 9
expect_ok "no kernel to be had: the other tests run" bazelw test //pool
expect_ok "it is said" grep -q "no kernel, so .* checks nothing: E: 404" \
    <<<"$expect_output"
expect_refusal "and nothing is left" "" test -e "$machine/checkout/.kernel"

bare_machine
with_build_tools
with_python
expect_ok "a build makes no .venv/" bazelw build //pool
expect_text "nothing was asked of pip" "" "$(cat "$log")"
expect_ok "the demo does" bazelw run //bench:demo -- --driver=cuda
expect_ok "with what is pinned, and no other file" grep -qx -e \
    "pip install .*--require-hashes .*/emm/requirements-test-cp399.txt" "$log"
expect_ok "runs it then" grep -qxF \
    "bazel run //bench:demo -- --driver=cuda [unset]" <<<"$(
        bazelw run //bench:demo -- --driver=cuda 2>&1)"
expect_text "and makes .venv/ once" "1" "$(wc -l <"$log")"
expect_refusal "without a kernel" "" test -e "$machine/checkout/.kernel"

# $1: a pattern for the packages that the system's sources have.
with_sources() {
    program apt-cache <<EOF
case "\$2" in
$1) echo "  Candidate: 1.0" ;;
*) echo "  Candidate: (none)" ;;
esac
# Longer than a pipe: whoever reads only the first lines ends this program.
for i in {1..9999}; do echo "     \$i.0 500 a table of versions"; done
EOF
}

bare_machine
as_root
with_apt
with_test_tools
with_python
rm "$machine/bin/chromium"
with_sources nothing
expect_ok "a system without a package that few tests use" bazelw test //pool
expect_ok "the package is named" grep -qF \
    "has no package chromium: their tests check nothing" <<<"$expect_output"
expect_refusal "apt-get was not asked for it" "" grep apt-get "$log"
rm "$machine/bin/cmake"
extra=PRETEND=1
expect_refusal "all tests use that one" "but cmake is still missing" \
    bazelw test //pool
expect_ok "it is installed alone" grep -q "install cmake$" "$log"
with_sources chromium
expect_refusal "a system that has both" "but cmake chromium is still missing" \
    bazelw test //pool
expect_ok "both are installed" grep -q "install cmake chromium$" "$log"
extra=

# The packages of the Python tests are pinned for the interpreter here, of which the
# system may lack numba.
tag=$(/usr/bin/python3 -c 'import sys; print("cp%d%d" % sys.version_info[:2])')
bare_machine
with_test_tools
without_python
cat >"$machine/python3" <<'EOF'
#!/bin/bash
case "$*" in
*" numba" | *" numpy") exit 0 ;;
esac
exec /usr/bin/python3 "$@"
EOF
chmod +x "$machine/python3"
mkdir "$machine/checkout/emm" "$machine/checkout/.venv"
touch "$machine/checkout/emm/requirements-test-cp27.txt"
expect_refusal "nothing is pinned for this Python" \
    "there is no emm/requirements-test-$tag.txt; there is: requirements-test-cp27" \
    bazelw test //pool
expect_ok "a build needs none of them" bazelw build //pool
lock=$machine/checkout/emm/requirements-test-$tag.txt
echo "# ours" >"$lock"
sha256sum <"$lock" >"$machine/checkout/.venv/requirements.sha256"
expect_ok "what is installed is what is pinned for it" bazelw test //pool
expect_text "nothing is installed again" "bazel test //pool [unset]" \
    "$expect_output"
finish
