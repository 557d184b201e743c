/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Runs in the guest: a program whose calls of the kernel are refused with EPERM
 * as the seccomp profiles of containers do it.
 *
 *   without mbind|move_pages COMMAND [ARGUMENT...]
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static int refuse(unsigned call)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof(code) / sizeof(code[0]), code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return -1;
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        puts("usage: without mbind|move_pages COMMAND [ARGUMENT...]");
        return 1;
    }
    unsigned call = strcmp(argv[1], "mbind") == 0 ? SYS_mbind : SYS_move_pages;
    if (refuse(call) == 0)
        (void)execvp(argv[2], argv + 2);
    perror(argv[2]);
    return 1;
}
