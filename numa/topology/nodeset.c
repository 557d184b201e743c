/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "numa/topology/nodeset.h"

#include <stdio.h>

/* At most 128 ranges of at most 8 characters: all of it fits. */
const char *moietyi_nodeset_text(const moietyi_nodeset *set,
                                 char out[MOIETYI_NODESET_TEXT_BYTES])
{
    size_t length = 0;
    (void)snprintf(out, MOIETYI_NODESET_TEXT_BYTES, "none");
    for (unsigned node = moietyi_nodeset_first(set); node < MOIETYI_NODES_MAX;
         node = moietyi_nodeset_next(set, node)) {
        unsigned first = node;
        while (moietyi_nodeset_has(set, node))
            node++;
        const char *comma = length ? "," : "";
        int added =
            node - first == 1
                ? snprintf(out + length, MOIETYI_NODESET_TEXT_BYTES - length,
                           "%s%u", comma, first)
                : snprintf(out + length, MOIETYI_NODESET_TEXT_BYTES - length,
                           "%s%u-%u", comma, first, node - 1);
        length += added > 0 ? (size_t)added : 0;
    }
    return out;
}

/* Digits alone; false for anything else and for what no set can hold. */
static bool take_index(const char **text, unsigned *out)
{
    const char *at = *text;
    unsigned value = 0;
    for (; *at >= '0' && *at <= '9'; at++) {
        value = 10 * value + (unsigned)(*at - '0');
        if (value >= MOIETYI_NODES_MAX)
            return false;
    }
    bool has_digits = at != *text;
    *text = at;
    *out = value;
    return has_digits;
}

size_t moietyi_nodeset_parse(const char *text, char separator,
                             moietyi_nodeset *out)
{
    const char *at = text;
    *out = (moietyi_nodeset){{0}};
    for (;; at++) {
        unsigned first = 0;
        if (!take_index(&at, &first))
            return 0;
        unsigned last = first;
        if (*at == '-') {
            at++;
            if (!take_index(&at, &last) || last < first)
                return 0;
        }
        for (unsigned node = first; node <= last; node++)
            moietyi_nodeset_add(out, node);
        if (*at == '\0' || *at == '\n')
            return (size_t)(at - text);
        if (*at != separator)
            return 0;
    }
}
