#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# fresh_python.sh ROOT WHEEL [PACKAGE...]
#
# Shows that a manylinux wheel works for a stranger: installs it and NumPy (and
# the PACKAGEs) into a new environment in the root folder ROOT, which has
# python3 and python3-venv and no compiler, and runs there the Python programs
# of the quick start and of the guide, the command, and a replay, all on the
# stand-in. For a ROOT of another architecture QEMU has to be registered with
# the kernel (binfmt_misc). Needs root and a network. A ROOT is made by
#   debootstrap --variant=minbase --include=python3,python3-venv SUITE ROOT
set -euo pipefail

fail() {
    printf 'fresh_python: %s\n' "$1" >&2
    exit 1
}

[ $# -ge 2 ] || fail "usage: fresh_python.sh ROOT WHEEL [PACKAGE...]"
[ "$(id -u)" = 0 ] || fail "only root can change its root folder"
checkout=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
root=$(cd "$1" && pwd)
wheel=$2
shift 2
[ ! -e "$root/usr/bin/cc" ] || fail "$root has a compiler: that proves nothing"

settings=(HOME=/srv LANG=C.UTF-8 PATH=/srv/venv/bin:/usr/bin:/bin
    MOIETY_DRIVER=standin BLOCKS_FOLDER=/srv)
for name in http_proxy https_proxy no_proxy; do
    [ -z "${!name:-}" ] || settings+=("$name=${!name}")
done
cp -L /etc/resolv.conf "$root/etc/resolv.conf"
if [ -n "${PIP_CERT:-}" ]; then
    cp -L "$PIP_CERT" "$root/srv/certificates.pem"
    settings+=(PIP_CERT=/srv/certificates.pem)
fi
rm -rf "$root"/srv/*.whl "$root/srv/venv"
cp "$wheel" "$checkout/docs/quickstart.md" \
    "$checkout/docs/guides/python.md" "$checkout/tests/docs/blocks.py" \
    "$checkout/tests/install/first_programs.py" \
    "$checkout/bench/traces/serving.mtrace.gz" "$root/srv"

mount -t proc proc "$root/proc"
mount -t sysfs -o ro sysfs "$root/sys"
mount --rbind --make-rslave /dev "$root/dev"
trap 'umount -l "$root/dev"; umount "$root/sys" "$root/proc"' EXIT

# shellcheck disable=SC2016 # for the shell inside
chroot "$root" env -i "${settings[@]}" bash -euc '
. /etc/os-release
echo "fresh_python: $PRETTY_NAME, $(uname -m)"
python3 -m venv /srv/venv
pip install --quiet --disable-pip-version-check /srv/*.whl numpy "$@"
python -c "import moiety; print(moiety.__version__, moiety.Pool().alloc(1))"
python /srv/first_programs.py /srv/quickstart.md /srv/python.md
moiety doctor >/dev/null || [ $? = 1 ]
moiety topo | head -n 3
MOIETY_STANDIN_MEMORY=130GiB moiety replay --driver=standin \
    --subject=moiety,best-fit /srv/serving.mtrace.gz
man=/srv/venv/share/man/man1/moiety.1
[ -e "$man" ] && echo "fresh_python: all well"
' bash "$@" </dev/null
