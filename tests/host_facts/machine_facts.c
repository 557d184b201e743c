/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Facts of the kernel and the C library, each found by trying.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <gnu/libc-version.h>
#include <linux/membarrier.h>
#include <linux/mempolicy.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "tests/host_facts/facts.h"

void facts_add_verdict(struct facts *facts, const char *key, int error)
{
    if (error == 0) {
        facts_add(facts, key, "works");
        return;
    }
    const char *name = strerrorname_np(error);
    facts_add(facts, key, "refused here (%s)", name != NULL ? name : "?");
}

static void *map_page(void)
{
    size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    return mmap(NULL, page_bytes, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static void unmap_page(void *page)
{
    (void)munmap(page, (size_t)sysconf(_SC_PAGESIZE));
}

/* 0 or errno, as for the others below. */
static int try_membarrier(void)
{
    if (syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0,
                0) != 0 ||
        syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) != 0)
        return errno;
    return 0;
}

static int try_mbind(void)
{
    unsigned long node_mask = 1; /* node 0 exists wherever a node does */
    void *page = map_page();
    if (page == MAP_FAILED)
        return errno;
    long failed = syscall(SYS_mbind, page, (size_t)sysconf(_SC_PAGESIZE),
                          MPOL_BIND, &node_mask, sizeof node_mask * 8, 0);
    int error = failed != 0 ? errno : 0;
    unmap_page(page);
    return error;
}

/* Asks where a page is; moves nothing. */
static int try_move_pages(void)
{
    void *page = map_page();
    int node = -1;
    if (page == MAP_FAILED)
        return errno;
    *(volatile char *)page = 1;
    long failed = syscall(SYS_move_pages, 0, 1UL, &page, NULL, &node, 0);
    int error = failed != 0 ? errno : 0;
    if (error == 0 && node < 0)
        error = -node;
    unmap_page(page);
    return error;
}

static int try_memfd(void)
{
    int descriptor = memfd_create("moiety-host-facts", MFD_CLOEXEC);
    if (descriptor < 0)
        return errno;
    int error = ftruncate(descriptor, 4096) != 0 ? errno : 0;
    (void)close(descriptor);
    return error;
}

static int try_wipe_on_fork(void)
{
    void *page = map_page();
    if (page == MAP_FAILED)
        return errno;
    int failed = madvise(page, (size_t)sysconf(_SC_PAGESIZE), MADV_WIPEONFORK);
    int error = failed != 0 ? errno : 0;
    unmap_page(page);
    return error;
}

/* The first line of a file that the kernel makes; not having it is a fact. */
static void add_first_line(struct facts *facts, const char *key,
                           const char *path)
{
    char line[128] = "";
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        facts_add(facts, key, "not told (no %s)", path);
        return;
    }
    bool is_read = fgets(line, sizeof line, file) != NULL;
    (void)fclose(file);
    line[strcspn(line, "\n")] = '\0';
    if (is_read)
        facts_add(facts, key, "%s", line);
    else
        facts_add_unknown(facts, key, "empty file");
}

static void add_size(struct facts *facts)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    long pages = sysconf(_SC_PHYS_PAGES);
    long page_bytes = sysconf(_SC_PAGESIZE);
    if (cores < 1 || pages < 1 || page_bytes < 1) {
        facts_add_unknown(facts, "cores", "sysconf");
        return;
    }
    facts_add(facts, "cores", "%ld", cores);
    facts_add(facts, "memory_mib", "%lu",
              (unsigned long)pages / 1024 * (unsigned long)page_bytes / 1024);
}

void facts_of_machine(struct facts *facts)
{
    struct utsname name;
    if (uname(&name) != 0)
        facts_add_unknown(facts, "kernel", "uname");
    else
        facts_add(facts, "kernel", "%s %s %s", name.sysname, name.release,
                  name.machine);
    facts_add(facts, "glibc", "%s", gnu_get_libc_version());
    add_size(facts);
    add_first_line(facts, "numa_nodes", "/sys/devices/system/node/online");
    add_first_line(facts, "kernel_driver", "/sys/module/nvidia/version");
    facts_add_verdict(facts, "membarrier_private_expedited", try_membarrier());
    facts_add_verdict(facts, "mbind", try_mbind());
    facts_add_verdict(facts, "move_pages", try_move_pages());
    facts_add_verdict(facts, "memfd_create", try_memfd());
    facts_add_verdict(facts, "madvise_wipe_on_fork", try_wipe_on_fork());
}
