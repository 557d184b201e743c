/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "numa/pinned/map.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "pool/base/clock.h"
#include "pool/base/failure.h"
#include "pool/base/fork_mark.h"

#define SEGMENT_ALIGNMENT_BYTES ((size_t)2 << 20)
/* log2 of the page size, where mmap() looks for it. */
#define HUGE_SHIFT 26
#define HUGE_2MIB (MAP_HUGETLB | 21 << HUGE_SHIFT)
#define HUGE_1GIB (MAP_HUGETLB | 30 << HUGE_SHIFT)

size_t moietyi_page_bytes(enum moietyi_pages pages)
{
    switch (pages) {
    case MOIETYI_PAGES_1GIB:
        return (size_t)1 << 30;
    case MOIETYI_PAGES_2MIB:
        return (size_t)2 << 20;
    default:
        return (size_t)sysconf(_SC_PAGESIZE);
    }
}

static void *map_anonymous(size_t size_bytes, int flags)
{
    void *base = mmap(NULL, size_bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
    return base == MAP_FAILED ? NULL : base;
}

/* The kernel has these pages set aside, and aligns them itself. */
static moiety_status map_huge(struct moietyi_region *region)
{
    bool is_large = region->pages == MOIETYI_PAGES_1GIB;
    region->base =
        map_anonymous(region->size_bytes, is_large ? HUGE_1GIB : HUGE_2MIB);
    if (region->base)
        return MOIETY_OK;
    return moietyi_fail(MOIETY_E_NO_PINNED_MEMORY,
                        "mmap of %zu bytes of huge pages of %s: %s",
                        region->size_bytes, is_large ? "1 GiB" : "2 MiB",
                        moietyi_error_text(errno).text);
}

/* Unmaps both ends around `size_bytes` at an aligned address. munmap() of an
 * end can fail for want of map entries: then it stays, as address space
 * only. */
static void *map_cut(char *from, size_t size_bytes, size_t slack_bytes)
{
    size_t before = (size_t)(-(uintptr_t)from & (SEGMENT_ALIGNMENT_BYTES - 1));
    if (before)
        (void)munmap(from, before);
    if (before < slack_bytes)
        (void)munmap(from + before + size_bytes, slack_bytes - before);
    return from + before;
}

/* The kernel gives huge pages where it finds some. With the advice it would stop,
 * and move memory until it has one. */
static bool is_huge_unasked(void)
{
    char words[64] = "";
    FILE *file = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "re");
    if (!file)
        return false;
    bool is_unasked =
        fgets(words, sizeof(words), file) && strstr(words, "[always]");
    (void)fclose(file);
    return is_unasked;
}

/* Transparent pages are not set aside, so they are only a request. */
static void wish_for_huge_pages(struct moietyi_region *region)
{
    if (region->pages == MOIETYI_PAGES_TRANSPARENT && !is_huge_unasked() &&
        madvise(region->base, region->size_bytes, MADV_HUGEPAGE) != 0)
        region->pages = MOIETYI_PAGES_SMALL;
}

static moiety_status pinned_map_aligned(struct moietyi_region *region)
{
    const size_t slack_bytes = SEGMENT_ALIGNMENT_BYTES;
    char *from = NULL;
    if (region->size_bytes <= SIZE_MAX - slack_bytes)
        from = map_anonymous(region->size_bytes + slack_bytes, MAP_NORESERVE);
    if (!from)
        return moietyi_fail(MOIETY_E_NO_HOST_MEMORY, "mmap of %zu bytes: %s",
                            region->size_bytes, moietyi_error_text(errno).text);
    region->base = map_cut(from, region->size_bytes, slack_bytes);
    wish_for_huge_pages(region);
    return MOIETY_OK;
}

static moiety_status map_pages(struct moietyi_region *region)
{
    return moietyi_pages_are_set_aside(region->pages)
               ? map_huge(region)
               : pinned_map_aligned(region);
}

/* A fork copies pinned pages at once, half a second for each GiB, and not when
 * one of both processes writes. If the kernel refuses the advice, that
 * remains. */
void moietyi_keep_from_children(void *base, size_t size_bytes)
{
    (void)madvise(base, size_bytes, MADV_DONTFORK);
}

void moietyi_let_children_have(void *base, size_t size_bytes)
{
    (void)madvise(base, size_bytes, MADV_DOFORK);
}

void moietyi_unmap(struct moietyi_region *region)
{
    if (region->base && !moietyi_is_forked())
        (void)munmap(region->base, region->size_bytes);
    region->base = NULL;
}

struct moietyi_nodes_text moietyi_nodes_text(const struct moietyi_place *place)
{
    struct moietyi_nodes_text out;
    (void)hwloc_bitmap_list_snprintf(out.text, sizeof(out.text), place->nodes);
    return out;
}

struct moietyi_error_text moietyi_error_text(int code)
{
    struct moietyi_error_text out;
    const char *text = strerror_r(code, out.text, sizeof(out.text));
    if (text != out.text)
        (void)snprintf(out.text, sizeof(out.text), "%s", text);
    return out;
}

/* If not exact, the policy is MPOL_PREFERRED(_MANY): other nodes are used when
 * these are full, and the kernel kills no process. */
static int flags_of(bool is_exact)
{
    return HWLOC_MEMBIND_BYNODESET | (is_exact ? HWLOC_MEMBIND_STRICT : 0);
}

static hwloc_membind_policy_t policy_of(const struct moietyi_place *place)
{
    return place->is_interleaved ? HWLOC_MEMBIND_INTERLEAVE
                                 : HWLOC_MEMBIND_BIND;
}

static moiety_status refuse_binding(const struct moietyi_place *place)
{
    int code = errno;
    return moietyi_fail(
        MOIETY_E_UNSUPPORTED, "binding memory to node %s: %s%s",
        moietyi_nodes_text(place).text, moietyi_error_text(code).text,
        code == EPERM ? "; a container may forbid mbind() and set_mempolicy()"
                      : "");
}

/* If exact, the kernel must not take pages elsewhere. */
static moiety_status map_bind(const struct moietyi_region *region,
                              const struct moietyi_place *place, bool is_exact)
{
    if (hwloc_set_area_membind(place->topology, region->base,
                               region->size_bytes, place->nodes,
                               policy_of(place), flags_of(is_exact)) == 0)
        return MOIETY_OK;
    return refuse_binding(place);
}

void moietyi_end_stage(struct moietyi_region *region, int stage,
                       uint64_t *since)
{
    uint64_t now = moietyi_now_ns();
    region->stage_ns[stage] += now - *since;
    *since = now;
}

void moietyi_fall_back(struct moietyi_region *region, uint32_t bits)
{
    region->fallbacks |= bits;
    (void)snprintf(region->reason, sizeof(region->reason), "%s",
                   moietyi_failure_message());
}

/* Near is worth more than huge: pages set aside come from the nodes, or are not
 * used. */
static moiety_status bind_or_fall_back(struct moietyi_region *region,
                                       const struct moietyi_place *place)
{
    moiety_status status = map_bind(
        region, place,
        place->is_strict || moietyi_pages_are_set_aside(region->pages));
    if (status == MOIETY_OK || place->is_strict)
        return status;
    moietyi_fall_back(region, MOIETY_HOST_FELL_TO_UNBOUND);
    return MOIETY_OK;
}

moiety_status moietyi_map_region(struct moietyi_region *region,
                                 const struct moietyi_place *place)
{
    uint64_t since = moietyi_now_ns();
    moiety_status status = map_pages(region);
    if (status != MOIETY_OK)
        return status;
    moietyi_keep_from_children(region->base, region->size_bytes);
    moietyi_end_stage(region, MOIETY_HOST_STAGE_MAP, &since);
    status = bind_or_fall_back(region, place);
    moietyi_end_stage(region, MOIETY_HOST_STAGE_BIND, &since);
    if (status != MOIETY_OK)
        moietyi_unmap(region);
    return status;
}

moiety_status moietyi_bind_thread(const struct moietyi_place *place,
                                  struct moietyi_thread_binding *out)
{
    const int flags = HWLOC_MEMBIND_THREAD | HWLOC_MEMBIND_BYNODESET;
    out->nodes = hwloc_bitmap_alloc();
    if (!out->nodes)
        return moietyi_fail(MOIETY_E_NO_HOST_MEMORY, "no memory for a nodeset");
    if (hwloc_get_membind(place->topology, out->nodes, &out->policy, flags) ==
            0 &&
        hwloc_set_membind(place->topology, place->nodes, policy_of(place),
                          HWLOC_MEMBIND_THREAD | flags_of(place->is_strict)) ==
            0)
        return MOIETY_OK;
    moiety_status status = refuse_binding(place);
    hwloc_bitmap_free(out->nodes);
    out->nodes = NULL;
    return status;
}

void moietyi_unbind_thread(const struct moietyi_place *place,
                           struct moietyi_thread_binding *binding)
{
    if (!binding->nodes)
        return;
    /* Linux has no first-touch policy of its own: hwloc's name for default. */
    bool is_default = binding->policy == HWLOC_MEMBIND_FIRSTTOUCH ||
                      binding->policy == HWLOC_MEMBIND_MIXED;
    (void)hwloc_set_membind(place->topology, binding->nodes,
                            is_default ? HWLOC_MEMBIND_DEFAULT
                                       : binding->policy,
                            HWLOC_MEMBIND_THREAD | HWLOC_MEMBIND_BYNODESET);
    hwloc_bitmap_free(binding->nodes);
    binding->nodes = NULL;
}
