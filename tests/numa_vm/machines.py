# SPDX-License-Identifier: Apache-2.0
"""The machines that cases run on, and what their scripts begin with."""

import vm


def standin(machine):
    """Lets the stand-in driver's devices be those of the machine."""
    addresses = [machine.bus_id(i) for i in range(len(machine.devices))]
    return f"""
export MOIETY_DRIVER=/bin/libcuda.so.1
export MOIETY_STANDIN_DEVICES={len(addresses)}
export MOIETY_STANDIN_PCI={",".join(addresses)}
"""


# Two nodes, a device next to each of them and one next to none.
TWO = vm.Machine([vm.Node(2, 384), vm.Node(2, 192)], [0, 1, None])

# huge_pages COUNT: as many on node 1, and none on node 0.
# in_cpuset COMMAND...: runs it where only node 1 is allowed.
# in_group NAME COMMAND...: runs it there. The groups small and small/inner may have 32
# MiB, slow is slowed down from 32 MiB on, and few may have 2 huge pages.
# lent: what processes hold that the kernel cannot take back, and files in
# memory; locked memory in MiB, of which it counts single pages late.
# killed TIMES FLAG...: growth on node 1 is killed at each of 5 stages, and then as
# many times where all is pinned, so that together they had more than the node.
# fill_node_1: leaves 32 MiB of it; files in memory cannot be taken back.
TWO_SETUP = (
    r"""
node1=/sys/devices/system/node/node1
mkdir -p /dev/shm /huge
mount -t tmpfs tmpfs /dev/shm
mount -t hugetlbfs hugetlbfs /huge
huge_pages() {
    echo $1 >$node1/hugepages/hugepages-2048kB/nr_hugepages
}
cgroup=/sys/fs/cgroup
echo +cpuset +memory +hugetlb >$cgroup/cgroup.subtree_control
mkdir -p $cgroup/node1 $cgroup/small/inner $cgroup/slow $cgroup/few
echo 1 >$cgroup/node1/cpuset.mems
echo 2-3 >$cgroup/node1/cpuset.cpus
echo 32M >$cgroup/small/memory.max
echo 32M >$cgroup/slow/memory.high
echo 4M >$cgroup/few/hugetlb.2MB.max
in_group() {
    sh -c 'echo $$ >/sys/fs/cgroup/$1/cgroup.procs; shift; exec "$@"' sh "$@"
}
in_cpuset() { in_group node1 "$@"; }
lent() {
    awk '/^(Mlocked|Unevictable):/ { print $1, int($2 / 1024) }
        /^HugePages_/ { print $1, $2 }' /proc/meminfo
    ls /dev/shm /huge
}
killed() {
    times=$1
    shift
    lent >/before
    stages='map.1 bind.1 start.1 touch.4 register.4'
    for at in $stages $(yes read_back.4 | head -n $times); do
        growing ${at%.*} ${at#*.} on=1 locked "$@" >/dev/null
        echo $?
    done 2>/dev/null | sort | uniq -c
    lent >/after
    diff /before /after && echo all is back
    growing once on=1 strict "$@"
}
fill_node_1() {
    free=$(awk '/MemFree/ { print int($4 / 1024) }' $node1/meminfo)
    mkdir /fill
    mount -t tmpfs -o mpol=bind:1,size=1G tmpfs /fill
    dd if=/dev/zero of=/fill/bytes bs=1M count=$((free - 32)) 2>/dev/null
}
"""
    + standin(TWO)
)

# Uneven, the last one without CPUs, as of memory behind CXL; a device next to
# that one and one next to node 2.
FOUR = vm.Machine(
    [vm.Node(1, 256), vm.Node(2, 128), vm.Node(1, 320), vm.Node(0, 192)],
    [3, 2],
)

# in_old_group COMMAND...: where version 1 of control groups allows 32 MiB.
FOUR_SETUP = (
    r"""
old=/sys/fs/cgroup/memory
mkdir $old
mount -t cgroup -o memory memory $old
mkdir $old/small
echo 32M >$old/small/memory.limit_in_bytes
in_old_group() {
    sh -c 'echo $$ >/sys/fs/cgroup/memory/small/cgroup.procs; exec "$@"' sh "$@"
}
"""
    + standin(FOUR)
)
