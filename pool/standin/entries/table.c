/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The table of all driver entries.
 *
 * Each entry that no file defines is, through a weak alias, a stub of its own:
 * it counts the call and answers CUDA_ERROR_NOT_SUPPORTED. A stub may be called
 * with any arguments: the caller removes them in the C calling conventions of
 * the platforms that CUDA has.
 */
#include "pool/standin/entries/table.h"

#define ENTRY(symbol, base, version, flavour)                                  \
    static CUresult stub_##symbol(void)                                        \
    {                                                                          \
        ENTER(symbol, NEEDS_NOTHING);                                          \
        return CUDA_ERROR_NOT_SUPPORTED;                                       \
    }                                                                          \
    STANDIN_EXPORT CUresult symbol(void)                                       \
        __attribute__((weak, alias("stub_" #symbol)));
#include "pool/standin/entries.inc"

#define FLAVOUR_LEGACY false
#define FLAVOUR_PER_THREAD true
static struct entry_row rows[ENTRY_COUNT] = {
#define ENTRY(symbol, base, version, flavour)                                  \
    {version, FLAVOUR_##flavour, (void (*)(void))(symbol), false},
#include "pool/standin/entries.inc"
};

static void (*const stubs[ENTRY_COUNT])(void) = {
#define ENTRY(symbol, base, version, flavour) (void (*)(void)) stub_##symbol,
#include "pool/standin/entries.inc"
};

__attribute__((constructor)) static void find_implemented(void)
{
    for (size_t i = 0; i < ENTRY_COUNT; i++)
        rows[i].is_implemented = rows[i].function != stubs[i];
}

const struct entry_row *entry_row(enum standin_entry entry)
{
    return &rows[entry];
}
