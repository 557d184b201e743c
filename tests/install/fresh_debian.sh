#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# fresh_debian.sh FOLDER [COMMAND]
#
# Shows that the README's two commands work for a stranger: makes a Debian 12
# with debootstrap in FOLDER, copies the files of this checkout that git does
# not ignore into it, and runs the commands there, with none of the packages
# installed and no CUDA Toolkit. COMMAND, a line of shell, is run in their
# place. Needs root, debootstrap and a network.
set -euo pipefail

fail() {
    printf 'fresh_debian: %s\n' "$1" >&2
    exit 1
}

[ $# -ge 1 ] || fail "usage: fresh_debian.sh FOLDER [COMMAND]"
[ "$(id -u)" = 0 ] || fail "only root can change its root folder"
command -v debootstrap >/dev/null || fail "debootstrap is not installed"
checkout=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
command=${2:-'./bazelw run //bench:demo && ./bazelw test //...'}
[ ! -e "$1" ] || fail "$1 is there already"
mkdir -p "$1"
root=$(cd "$1" && pwd)

echo "fresh_debian: debootstrap, Debian 12, minbase"
debootstrap --variant=minbase bookworm "$root" \
    http://deb.debian.org/debian >"$root.debootstrap.log" 2>&1 ||
    fail "debootstrap failed: see $root.debootstrap.log"

# The host's way to the network: its name servers, and the certificates and
# settings by which it trusts a proxy. A host that has neither needs neither.
cp -L /etc/resolv.conf "$root/etc/resolv.conf"
settings=(HOME=/srv/home LANG=C.UTF-8
    PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin)
for name in http_proxy https_proxy no_proxy; do
    [ -z "${!name:-}" ] || settings+=("$name=${!name}")
done
if [ -n "${PIP_CERT:-}" ]; then
    cp -L "$PIP_CERT" "$root/srv/certificates.pem"
    settings+=(PIP_CERT=/srv/certificates.pem)
fi

mkdir -p "$root/srv/moiety" "$root/srv/home"
git -C "$checkout" ls-files -z --cached --others --exclude-standard |
    tar -C "$checkout" --null --ignore-failed-read -T - -cf - |
    tar -C "$root/srv/moiety" -xf -

unmount() {
    umount "$root/dev/shm" "$root/dev/pts" "$root/dev" "$root/sys" \
        "$root/proc" 2>/dev/null || true
}
trap unmount EXIT
mount -t proc proc "$root/proc"
mount -t sysfs -o ro sysfs "$root/sys"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
for device in null zero full random urandom tty; do
    cp -a "/dev/$device" "$root/dev/"
done
mkdir "$root/dev/pts" "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=666 devpts "$root/dev/pts"
ln -s pts/ptmx "$root/dev/ptmx" # tests make terminals
mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
ln -s /proc/self/fd "$root/dev/fd"
for name in 0:stdin 1:stdout 2:stderr; do
    ln -s "/proc/self/fd/${name%:*}" "$root/dev/${name#*:}" # tests write there
done

chroot "$root" dpkg-query -W -f '${Package}\n' >"$root.packages.log"
for package in bazel-bootstrap gcc g++ python3 git libhwloc-dev googletest; do
    ! grep -qx "$package" "$root.packages.log" ||
        fail "$package is installed already: that proves nothing"
done
printf 'fresh_debian: Debian %s, %d packages, no compiler, no Bazel\n' \
    "$(cat "$root/etc/debian_version")" "$(wc -l <"$root.packages.log")"

echo "fresh_debian: $command"
status=0
chroot "$root" env -i "${settings[@]}" \
    bash -c "cd /srv/moiety && { $command; }" </dev/null || status=$?

# Bazel's server would keep the folder busy.
chroot "$root" env -i "${settings[@]}" \
    bash -c 'cd /srv/moiety && ./bazelw shutdown' || true
echo "fresh_debian: exit status $status"
exit "$status"
