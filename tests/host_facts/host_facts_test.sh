#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# host_facts on the stand-in: every fact is there in both forms, without a
# driver it says so, and it refuses arguments that it does not know.
#   host_facts_test.sh HOST_FACTS STANDIN
set -eu

facts=$1
standin=$PWD/$2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

fail() {
    echo "host_facts_test: $*" >&2
    exit 1
}

MOIETY_DRIVER=$standin "$facts" >"$scratch/lines"
for key in kernel glibc cores memory_mib numa_nodes kernel_driver \
    membarrier_private_expedited mbind move_pages memfd_create \
    madvise_wipe_on_fork driver devices device cuda_legacy_ipc \
    cuda_vmm_fd_export; do
    grep -Eq "^fact: $key = .+" "$scratch/lines" || fail "no fact '$key'"
done
grep -q '^fact: driver = CUDA 13.0 (stand-in)$' "$scratch/lines" ||
    fail "the stand-in is not named"
for key in cuda_legacy_ipc cuda_vmm_fd_export; do
    grep -q "^fact: $key = works$" "$scratch/lines" || fail "$key fails"
done

MOIETY_DRIVER=$standin "$facts" --json >"$scratch/json"
[ "$(head -c 1 "$scratch/json")" = "{" ] || fail "--json gives no object"
[ "$(grep -c '^  "[a-z_]*": ".*",\{0,1\}$' "$scratch/json")" -eq \
    "$(grep -c '^fact: ' "$scratch/lines")" ] ||
    fail "--json and lines differ in number"

MOIETY_DRIVER=$scratch/none.so "$facts" >"$scratch/without" ||
    fail "a host without a driver must not be a failure"
grep -q '^fact: driver = none (' "$scratch/without" || fail "no driver, unsaid"

status=0
"$facts" --unknown 2>"$scratch/usage" || status=$?
[ "$status" -eq 2 ] || fail "an unknown argument exits $status, expected 2"
grep -q '^usage: ' "$scratch/usage" || fail "an unknown argument, no usage"
