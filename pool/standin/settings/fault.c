/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Parses and applies the fault plan. Rules are counted under a small lock of
 * their own, so that "the n-th call" has one meaning among many threads; with
 * no plan, a call pays one relaxed load.
 */
#include "pool/standin/settings/fault.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pool/standin/base/names.h"

#define RULE_MAX 64
#define WORD_MAX 96

struct rule {
    char entry[WORD_MAX]; /* symbol, base name or "*" */
    uint64_t nth;         /* 0 or the one call that fails */
    uint64_t every;       /* 0 or the period */
    uint64_t from;        /* 0 or the first call of those that fail */
    uint64_t calls;       /* seen so far; under plan_lock */
    CUresult code;
};

/* What the driver claims that a device has, whatever it has. */
struct memory_claim {
    bool has_free, has_total;
    long long free_bytes, total_bytes; /* may be below 0 */
};

struct plan {
    struct rule rules[RULE_MAX];
    size_t rule_count;
    CUresult wait_code;
    long event_late_us;
    long stream_delay_us;
    struct memory_claim claim;
};

static pthread_mutex_t plan_lock = PTHREAD_MUTEX_INITIALIZER;
static struct plan plan; /* under plan_lock */
/* Edge: none; relaxed: a hint that lets calls skip the lock; a caller that must
 * see a new plan has called fault_set_plan itself or was synchronised by its
 * own means. */
static atomic_bool has_rules;
/* Edge: none; relaxed: the same. */
static atomic_long event_late_us;
static atomic_long stream_delay_us;
/* Edge: none; relaxed: the same. A CUresult. */
static atomic_int wait_code;

static _Thread_local char error_text[256];

static bool reject(const char *word, const char *accepted)
{
    (void)snprintf(error_text, sizeof(error_text),
                   "rules separated by commas, %s; \"%.80s\" is neither",
                   accepted, word);
    return false;
}

static bool parse_count(const char *text, uint64_t *out)
{
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end != '\0' || errno || value == 0)
        return false;
    *out = value;
    return true;
}

static bool parse_code(const char *text, CUresult *out)
{
    uint64_t number;
    if (parse_count(text, &number) && number <= 999) {
        *out = (CUresult)number;
        return true;
    }
    return error_from_name(text, out);
}

/* "event:late=US" and "stream:delay=US"; false when `rule` is neither. */
static bool parse_delay(const char *rule, struct plan *out)
{
    uint64_t microseconds;
    if (strncmp(rule, "event:late=", 11) == 0 &&
        parse_count(rule + 11, &microseconds)) {
        out->event_late_us = (long)microseconds;
        return true;
    }
    if (strncmp(rule, "stream:delay=", 13) == 0 &&
        parse_count(rule + 13, &microseconds)) {
        out->stream_delay_us = (long)microseconds;
        return true;
    }
    return false;
}

static bool parse_claimed_bytes(const char *text, bool *has, long long *out)
{
    char *end;
    errno = 0;
    *out = strtoll(text, &end, 10);
    *has = end != text && *end == '\0' && !errno;
    return *has;
}

/* "memory:free=BYTES" and "memory:total=BYTES"; false when `rule` is neither. */
static bool parse_claim(const char *rule, struct memory_claim *out)
{
    if (strncmp(rule, "memory:free=", 12) == 0)
        return parse_claimed_bytes(rule + 12, &out->has_free, &out->free_bytes);
    if (strncmp(rule, "memory:total=", 13) == 0)
        return parse_claimed_bytes(rule + 13, &out->has_total,
                                   &out->total_bytes);
    return false;
}

/* "wait:code=CODE"; false when `rule` is not that. */
static bool parse_wait(const char *rule, struct plan *out)
{
    return strncmp(rule, "wait:code=", 10) == 0 &&
           parse_code(rule + 10, &out->wait_code);
}

/* One "key=value" word behind the entry's name. */
static bool parse_word(const char *word, struct rule *out)
{
    if (strncmp(word, "nth=", 4) == 0)
        return parse_count(word + 4, &out->nth);
    if (strncmp(word, "every=", 6) == 0)
        return parse_count(word + 6, &out->every);
    if (strncmp(word, "from=", 5) == 0)
        return parse_count(word + 5, &out->from);
    if (strncmp(word, "code=", 5) == 0)
        return parse_code(word + 5, &out->code);
    return false;
}

static bool parse_rule(char *text, struct rule *out)
{
    char *position;
    char *word = strtok_r(text, ":", &position);
    if (!word || strlen(word) >= WORD_MAX || !entry_name_is_known(word)) {
        return reject(word ? word : "",
                      "ENTRY:nth=N:code=CODE, ENTRY:every=K:code=CODE, "
                      "ENTRY:from=N:code=CODE, event:late=US, "
                      "stream:delay=US, wait:code=CODE, memory:free=BYTES or "
                      "memory:total=BYTES, ENTRY a driver entry's name or *");
    }
    memcpy(out->entry, word, strlen(word) + 1);
    while ((word = strtok_r(NULL, ":", &position)))
        if (!parse_word(word, out))
            return reject(word, "each ENTRY then nth=N, every=K or from=N, and "
                                "code=NUMBER or code=CUDA_ERROR_NAME");
    if ((out->nth != 0) + (out->every != 0) + (out->from != 0) != 1 ||
        out->code == CUDA_SUCCESS)
        return reject(out->entry, "each with one of nth=N, every=K and from=N, "
                                  "and with code=CODE");
    return true;
}

static bool parse_plan(char *text, struct plan *out)
{
    char *position;
    for (char *word = strtok_r(text, ",", &position); word;
         word = strtok_r(NULL, ",", &position)) {
        if (parse_delay(word, out) || parse_wait(word, out) ||
            parse_claim(word, &out->claim))
            continue;
        if (out->rule_count == RULE_MAX)
            return reject(word, "at most 64 of them");
        if (!parse_rule(word, &out->rules[out->rule_count]))
            return false;
        out->rule_count++;
    }
    return true;
}

static void install(const struct plan *fresh)
{
    pthread_mutex_lock(&plan_lock);
    plan = *fresh;
    pthread_mutex_unlock(&plan_lock);
    atomic_store_explicit(&has_rules, fresh->rule_count > 0,
                          memory_order_relaxed);
    atomic_store_explicit(&event_late_us, fresh->event_late_us,
                          memory_order_relaxed);
    atomic_store_explicit(&stream_delay_us, fresh->stream_delay_us,
                          memory_order_relaxed);
    atomic_store_explicit(&wait_code, (int)fresh->wait_code,
                          memory_order_relaxed);
}

bool fault_set_plan(const char *text)
{
    struct plan *fresh = calloc(1, sizeof(*fresh));
    char *copy = strdup(text ? text : "");
    bool is_good = fresh && copy && parse_plan(copy, fresh);
    if (!fresh || !copy)
        (void)snprintf(error_text, sizeof(error_text), "memory to parse it");
    if (is_good)
        install(fresh);
    free(copy);
    free(fresh);
    return is_good;
}

const char *fault_error(void)
{
    return error_text;
}

long fault_event_late_us(void)
{
    return atomic_load_explicit(&event_late_us, memory_order_relaxed);
}

long fault_stream_delay_us(void)
{
    return atomic_load_explicit(&stream_delay_us, memory_order_relaxed);
}

void fault_claim_memory(size_t *out_free, size_t *out_total)
{
    pthread_mutex_lock(&plan_lock);
    if (plan.claim.has_free && out_free)
        *out_free = (size_t)plan.claim.free_bytes;
    if (plan.claim.has_total && out_total)
        *out_total = (size_t)plan.claim.total_bytes;
    pthread_mutex_unlock(&plan_lock);
}

CUresult fault_wait_code(void)
{
    return (CUresult)atomic_load_explicit(&wait_code, memory_order_relaxed);
}

static bool rule_fires(struct rule *rule)
{
    rule->calls++;
    if (rule->nth)
        return rule->calls == rule->nth;
    if (rule->from)
        return rule->calls >= rule->from;
    return rule->calls % rule->every == 0;
}

CUresult fault_take(enum standin_entry entry)
{
    /* relaxed: see has_rules. */
    if (!atomic_load_explicit(&has_rules, memory_order_relaxed))
        return CUDA_SUCCESS;
    CUresult code = CUDA_SUCCESS;
    pthread_mutex_lock(&plan_lock);
    for (size_t i = 0; i < plan.rule_count; i++) {
        struct rule *rule = &plan.rules[i];
        if (entry_has_name(entry, rule->entry) && rule_fires(rule))
            code = rule->code;
    }
    pthread_mutex_unlock(&plan_lock);
    return code;
}
