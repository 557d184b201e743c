/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The names come from the lists that the driver's headers gave.
 */
#include "pool/standin/base/names.h"

#include <stddef.h>
#include <string.h>

static const struct {
    const char *symbol;
    const char *base;
} names[ENTRY_COUNT] = {
#define ENTRY(symbol, base, version, flavour) {#symbol, #base},
#include "pool/standin/entries.inc"
};

const char *entry_base(enum standin_entry entry)
{
    return names[entry].base;
}

bool entry_has_name(enum standin_entry entry, const char *name)
{
    return strcmp(name, "*") == 0 || strcmp(name, names[entry].symbol) == 0 ||
           strcmp(name, names[entry].base) == 0;
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
