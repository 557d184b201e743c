/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "bench/lag/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct lag_plan lag_idle = {.text = "idle"};

/* Digits alone, up to the length. */
static bool parse_number(const char *text, size_t length, uint32_t most,
                         uint32_t *out)
{
    uint32_t number = 0;
    for (size_t i = 0; i < length; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        number = number * 10 + (uint32_t)(text[i] - '0');
        if (number > most)
            return false;
    }
    *out = number;
    return number > 0 && text[0] != '0';
}

static bool parse_term(const char *term, size_t length, struct lag_plan *out)
{
    const struct {
        const char *name;
        uint32_t most;
        uint32_t *number;
    } kinds[] = {
        {"work:", LAG_WORK_US_MAX, &out->work_us},
        {"fill:", LAG_FILLS_MAX, &out->fill_count},
        {"sync:", LAG_SYNC_MAX, &out->sync_every},
    };
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        size_t skip = strlen(kinds[i].name);
        if (length > skip && strncmp(term, kinds[i].name, skip) == 0)
            return *kinds[i].number == 0 &&
                   parse_number(term + skip, length - skip, kinds[i].most,
                                kinds[i].number);
    }
    return false;
}

static bool parse_plan(const char *text, size_t length, struct lag_plan *out)
{
    *out = (struct lag_plan){0};
    if (length >= sizeof(out->text))
        return false;
    memcpy(out->text, text, length);
    out->is_held = strcmp(out->text, "held") == 0;
    if (out->is_held || strcmp(out->text, lag_idle.text) == 0)
        return true;
    out->has_work = true;
    for (const char *term = out->text;; term++) {
        size_t term_length = strcspn(term, "+");
        if (!parse_term(term, term_length, out))
            return false;
        term += term_length;
        if (!*term)
            return true;
    }
}

static bool has_plan(const struct lag_plans *plans, const char *text)
{
    for (uint32_t i = 0; i < plans->count; i++)
        if (strcmp(plans->plans[i].text, text) == 0)
            return true;
    return false;
}

bool lag_plans_parse(const char *list, struct lag_plans *plans)
{
    for (const char *text = list;; text++) {
        struct lag_plan plan;
        size_t length = strcspn(text, ",");
        if (!parse_plan(text, length, &plan) || has_plan(plans, plan.text) ||
            plans->count == LAG_PLANS_MAX)
            return false;
        plans->plans[plans->count++] = plan;
        text += length;
        if (!*text)
            return true;
    }
}

bool lag_is_idle(const struct lag_plan *plan)
{
    return !plan->is_held && !plan->has_work;
}
