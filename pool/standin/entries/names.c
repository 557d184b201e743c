/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The table of all driver entries, and the names and texts of error codes.
 *
 * Each entry that no file defines is, through a weak alias, a stub of its own:
 * it counts the call and answers CUDA_ERROR_NOT_SUPPORTED. A stub may be called
 * with any arguments: the caller removes them in the C calling conventions of
 * the platforms that CUDA has.
 */
#include "pool/standin/entries/names.h"

#include <string.h>

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
    {#symbol, #base, version, FLAVOUR_##flavour, (void (*)(void))(symbol),     \
     false},
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

bool entry_has_name(enum standin_entry entry, const char *name)
{
    return strcmp(name, "*") == 0 || strcmp(name, rows[entry].symbol) == 0 ||
           strcmp(name, rows[entry].base) == 0;
}

bool entry_name_is_known(const char *name)
{
    for (size_t i = 0; i < ENTRY_COUNT; i++)
        if (entry_has_name((enum standin_entry)i, name))
            return true;
    return false;
}

static const struct {
    CUresult code;
    const char *name;
} errors[] = {
#define ENUM(tag)
#define VALUE(name, value) {(CUresult)(value), #name},
#define ENUM_END(tag)
#include "pool/driver/cuda_constants.inc"
};

/* The list holds every constant; results are the CUDA_ names. */
static bool is_error_name(const char *name)
{
    return strcmp(name, "CUDA_SUCCESS") == 0 ||
           strncmp(name, "CUDA_ERROR_", 11) == 0;
}

const char *error_name(CUresult code)
{
    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
        if (errors[i].code == code && is_error_name(errors[i].name))
            return errors[i].name;
    return NULL;
}

bool error_from_name(const char *name, CUresult *out)
{
    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
        if (is_error_name(name) && strcmp(errors[i].name, name) == 0) {
            *out = errors[i].code;
            return true;
        }
    }
    return false;
}
