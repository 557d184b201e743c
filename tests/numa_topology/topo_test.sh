#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# topo_test.sh PROGRAM CHECKER: what topo prints, for people and as JSON, of
# this machine and of others, with a driver and without.
set -u

topo=$1
checker=$2
machines=tests/numa_topology/machines
failures=0

fail() {
    printf 'FAILED: %s\n' "$*"
    failures=$((failures + 1))
}

# $1: exit status; $2: text that the output must have; then the command.
expect() {
    local wanted=$1 text=$2 output status
    shift 2
    output=$(env -u MOIETY_DRIVER "$@" 2>&1)
    status=$?
    [ "$status" = "$wanted" ] ||
        fail "$* exited with $status, not $wanted: $output"
    [[ $output == *"$text"* ]] || fail "$* lacks '$text': $output"
}

# $1: name of a check in CHECKER; then the command.
expect_json() {
    local name=$1
    shift
    env -u MOIETY_DRIVER "$@" --json | python3 "$checker" "$name" ||
        fail "$* --json: $name"
}

eight=MOIETY_STANDIN_DEVICES=8
dgx_pci=0000:1b:00.0,0000:43:00.0,0000:52:00.0,0000:61:00.0
dgx_pci+=,0000:9d:00.0,0000:c3:00.0,0000:d1:00.0,0000:df:00.0
dgx=(HWLOC_XMLFILE=$machines/dgx.xml $eight MOIETY_STANDIN_PCI=$dgx_pci
    "$topo" --driver=standin)
cpuset=(HWLOC_XMLFILE=$machines/clusters_cpuset.xml MOIETY_STANDIN_DEVICES=2
    MOIETY_STANDIN_PCI=0000:a0:00.0,0000:e0:00.0 "$topo" --driver=standin)
tiers=(HWLOC_XMLFILE=$machines/tiers.xml MOIETY_STANDIN_PCI=0000:17:00.0
    "$topo" --driver=standin)

expect 0 'topology: this machine' "$topo" --driver=standin
expect 0 '(stand-in)' "$topo" --driver=standin
expect 0 'not this machine: nothing can be bound on it' "${dgx[@]}"
expect 0 'node 1      1024.0 GiB  dram       2 CPUs  near GPU 4,5,6,7' \
    "${dgx[@]}"
expect 0 'pinned memory for it: 1, the nodes nearest to the device' "${dgx[@]}"
expect 0 '          0   10   21' "${dgx[@]}"
expect 0 'not allowed for this process' "${cpuset[@]}"
expect 0 'near it: not known' "${cpuset[@]}"
expect 0 "pinned memory for it: 1,3, the device's locality is not known" \
    "${cpuset[@]}"
expect 0 'hbm' "${tiers[@]}"
expect 0 '300 ns  no GPU near' "${tiers[@]}"

expect_json this_machine "$topo" --driver=standin
expect_json dgx "${dgx[@]}"
expect_json cpuset "${cpuset[@]}"
expect_json tiers "${tiers[@]}"

# Without a driver the nodes are printed; who named one is told by the status.
expect 3 'driver: none, so no GPU is shown: MOIETY_DRIVER=/nowhere/libcuda.so' \
    "$topo" --driver=/nowhere/libcuda.so
expect 0 'driver: none' MOIETY_DRIVER=/nowhere/libcuda.so "$topo"
MOIETY_DRIVER=/nowhere/libcuda.so "$topo" --json |
    python3 "$checker" no_driver || fail '--json without a driver'

expect 1 'HWLOC_XMLFILE=/nowhere.xml' HWLOC_XMLFILE=/nowhere.xml "$topo"
expect 2 'usage: topo' "$topo" --jason
expect 2 'usage: topo' "$topo" --driver=
expect 2 'usage: topo' "$topo" further
expect 0 'usage: topo' "$topo" --help
expect 1 'stdout' bash -c "\"$topo\" >/dev/full"

[ "$failures" = 0 ]
