/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A policy as text.
 */
#include <string.h>

#include "numa/policy.h"
#include "pool/base/failure.h"

#define INTERLEAVE "interleave="

static binade_status refuse(const char *text, size_t length)
{
    return binadei_fail(BINADE_E_INVALID,
                        "placement '%.*s': accepted are nearest, caller, nodes "
                        "below %u as 0+2-3, and interleave=0+2-3",
                        (int)(length < 64 ? length : 64), text,
                        BINADEI_NODES_MAX);
}

static bool read_word(const char *word, struct binadei_placement_request *out)
{
    size_t prefix = sizeof(INTERLEAVE) - 1;
    out->nodes = (binadei_nodeset){{0}};
    out->policy = BINADEI_POLICY_NEAREST;
    if (strcmp(word, "nearest") == 0)
        return true;
    out->policy = BINADEI_POLICY_CALLER;
    if (strcmp(word, "caller") == 0)
        return true;
    out->policy = BINADEI_POLICY_EXPLICIT;
    if (strncmp(word, INTERLEAVE, prefix) == 0) {
        out->policy = BINADEI_POLICY_INTERLEAVE;
        word += prefix;
    }
    return binadei_nodeset_parse(word, '+', &out->nodes) == strlen(word) &&
           *word;
}

binade_status binadei_policy_read(const char *text, size_t length,
                                  struct binadei_placement_request *out)
{
    char word[BINADEI_NODESET_TEXT_BYTES + sizeof(INTERLEAVE)];
    struct binadei_placement_request read = *out;
    if (length >= sizeof(word))
        return refuse(text, length);
    memcpy(word, text, length);
    word[length] = '\0';
    if (!read_word(word, &read))
        return refuse(text, length);
    *out = read;
    return BINADE_OK;
}
