/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * cuGetErrorName and cuGetErrorString. The texts are our own.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "pool/standin/base/names.h"
#include "pool/standin/entries/core_api.h"

#define TEXT_MAX 64
#define CODE_MAX 1000

/* "CUDA_ERROR_OUT_OF_MEMORY" -> "out of memory"; made once per code. */
static char texts[CODE_MAX][TEXT_MAX];

static void spell_out(const char *name, char *out)
{
    const char *prefix = "CUDA_ERROR_";
    if (strncmp(name, prefix, strlen(prefix)) == 0)
        name += strlen(prefix);
    else
        name = "no error";
    size_t i = 0;
    for (; name[i] && i < TEXT_MAX - 1; i++) {
        int letter = name[i] == '_' ? ' ' : tolower((unsigned char)name[i]);
        out[i] = (char)letter;
    }
    out[i] = '\0';
}

STANDIN_EXPORT CUresult cuGetErrorName(CUresult code, const char **out)
{
    ENTER(cuGetErrorName, NEEDS_NOTHING);
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = error_name(code);
    return *out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

STANDIN_EXPORT CUresult cuGetErrorString(CUresult code, const char **out)
{
    ENTER(cuGetErrorString, NEEDS_NOTHING);
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    const char *name = error_name(code);
    *out = NULL;
    if (!name)
        return CUDA_ERROR_INVALID_VALUE;
    standin_lock();
    if (texts[code][0] == '\0')
        spell_out(name, texts[code]);
    *out = texts[code];
    return standin_leave(CUDA_SUCCESS);
}
