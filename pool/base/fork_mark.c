/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * One page that the kernel empties in a child (MADV_WIPEONFORK): a word of 1 in
 * it means that this process wrote it. That also catches children made without
 * the C library's fork(). Kernels before 4.14 and some sandboxes lack it; there
 * a fork handler clears the word.
 */
#define _DEFAULT_SOURCE
#include "pool/base/fork_mark.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

/* Edge FM: moietyi_fork_mark (release) -> marked_word (acquire). NULL until the
 * mark is set; written once, and the page is never unmapped after that. There
 * is no lock: a child could inherit it held by a thread that it lacks. */
static _Atomic(atomic_uint *) mark;

static atomic_uint *marked_word(void)
{
    /* FM.acquire: the word must not be read before the 1 is in it. */
    return atomic_load_explicit(&mark, memory_order_acquire);
}

static void clear_in_child(void)
{
    atomic_uint *word = marked_word();
    if (word)
        /* relaxed: a child starts with one thread. */
        atomic_store_explicit(word, 0, memory_order_relaxed);
}

static size_t page_bytes(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

/* A page that reads as 0 in a child, or NULL. */
static atomic_uint *wiped_page(void)
{
    void *page = mmap(NULL, page_bytes(), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return NULL;
    if (madvise(page, page_bytes(), MADV_WIPEONFORK) == 0 ||
        pthread_atfork(NULL, NULL, clear_in_child) == 0)
        return page;
    munmap(page, page_bytes());
    return NULL;
}

bool moietyi_fork_mark(void)
{
    if (marked_word())
        return true;
    atomic_uint *word = wiped_page();
    if (!word)
        return false;
    /* relaxed: nobody has the address yet; FM publishes it. */
    atomic_store_explicit(word, 1, memory_order_relaxed);
    atomic_uint *nobody = NULL;
    /* FM.release: a thread that sees the page sees the 1 in it. On failure
     * another thread was first; its page is not read here, so relaxed is
     * enough. */
    if (!atomic_compare_exchange_strong_explicit(
            &mark, &nobody, word, memory_order_release, memory_order_relaxed))
        munmap(word, page_bytes());
    return true;
}

bool moietyi_is_forked(void)
{
    atomic_uint *word = marked_word();
    /* relaxed: only a fork changes it, and that is no thread of ours. */
    return word && atomic_load_explicit(word, memory_order_relaxed) == 0;
}
