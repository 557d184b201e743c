/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "bench/replay/json.h"

#include <string.h>

#include "bench/base/json.h"
#include "bench/replay/trace/fields.h"

void replay_json_text(FILE *file, const char *text)
{
    /* Long names too are shown, without what is not ASCII. */
    bool is_ascii = !replay_is_text(text, strlen(text));
    json_text(file, text, is_ascii);
}
