/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "numa/arena/conf.h"

#include <string.h>

#include "numa/topology/policy.h"
#include "pool/base/failure.h"
#include "pool/config/conf.h"

#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

/* One per key: false for a value that is not accepted. */
typedef bool set_fn(struct moietyi_word word, moiety_host_options *options);

static bool set_place(struct moietyi_word word, moiety_host_options *options)
{
    struct moietyi_placement_request place = {.policy = MOIETYI_POLICY_NEAREST};
    if (moietyi_policy_read(word.text, word.length, &place) != MOIETY_OK)
        return false;
    options->policy = (uint32_t)place.policy;
    memcpy(options->nodes, place.nodes.words, sizeof(options->nodes));
    return true;
}

static void set_flag(uint32_t flag, bool is_on, moiety_host_options *options)
{
    options->flags = is_on ? options->flags | flag : options->flags & ~flag;
}

static bool set_strict(struct moietyi_word word, moiety_host_options *options)
{
    uint64_t value;
    if (!moietyi_word_number(word, false, &value))
        return false;
    set_flag(MOIETY_HOST_STRICT, value == 1, options);
    return value <= 1;
}

static bool conf_set_huge(struct moietyi_word word,
                          moiety_host_options *options)
{
    uint64_t value;
    if (!moietyi_word_number(word, true, &value))
        return false;
    set_flag(MOIETY_HOST_HUGE_2MIB, value == 2 * MIB, options);
    set_flag(MOIETY_HOST_HUGE_1GIB, value == GIB, options);
    return value == 0 || value == 2 * MIB || value == GIB;
}

static bool set_limit(struct moietyi_word word, moiety_host_options *options)
{
    return moietyi_word_number(word, true, &options->limit_bytes) &&
           (!options->limit_bytes || options->limit_bytes >= 2 * MIB);
}

static bool word_number32(struct moietyi_word word, uint32_t *out)
{
    uint64_t value;
    if (!moietyi_word_number(word, false, &value) || value > UINT32_MAX)
        return false;
    *out = (uint32_t)value;
    return true;
}

static bool set_threads(struct moietyi_word word, moiety_host_options *options)
{
    return word_number32(word, &options->touch_threads);
}

static bool set_stall(struct moietyi_word word, moiety_host_options *options)
{
    return word_number32(word, &options->stall_ms);
}

static bool set_max_block(struct moietyi_word word,
                          moiety_host_options *options)
{
    return moietyi_word_number(word, true, &options->max_block_bytes);
}

static const struct setting {
    const char *key;
    set_fn *set;
    const char *accepted;
} settings[] = {
    {"host_place", set_place,
     "nearest, caller, nodes below 256 as 0+2-3, interleave=0+2-3"},
    {"host_strict", set_strict, "0 and 1"},
    {"host_huge", conf_set_huge, "0, 2M and 1G"},
    {"host_limit", set_limit, "0 and bytes from 2M on"},
    {"host_threads", set_threads, "0 to 64"},
    {"host_stall_ms", set_stall, "milliseconds from 0 to 60000"},
    {"host_max_block", set_max_block, "bytes from 0 to 128G"},
};

#define SETTING_COUNT (sizeof(settings) / sizeof(settings[0]))

static const struct setting *conf_find_setting(struct moietyi_word key)
{
    for (size_t i = 0; i < SETTING_COUNT; i++)
        if (moietyi_word_is(key, settings[i].key))
            return &settings[i];
    return NULL;
}

static const char *conf_key(size_t index)
{
    return index < SETTING_COUNT ? settings[index].key : NULL;
}

/* `seen` has a bit for each setting that an entry before this one named. */
static moiety_status apply(const struct moietyi_conf_entry *entry,
                           uint32_t *seen, moiety_host_options *options)
{
    const struct setting *setting = conf_find_setting(entry->key);
    if (!setting)
        return moietyi_conf_refuse_key(entry->key, conf_key);
    uint32_t bit = UINT32_C(1) << (setting - settings);
    if (*seen & bit) {
        return moietyi_fail(MOIETY_E_INVALID,
                            "MOIETY_CONF: key '%s' is given twice; accepted is "
                            "once",
                            setting->key);
    }
    *seen |= bit;
    if (setting->set(entry->value, options))
        return MOIETY_OK;
    return moietyi_fail(
        MOIETY_E_INVALID, "MOIETY_CONF: %s is '%.*s'; accepted are %s",
        setting->key, MOIETYI_WORD_SHOWN(entry->value), setting->accepted);
}

moiety_status moietyi_host_apply_conf(const char *conf,
                                      moiety_host_options *options)
{
    struct moietyi_conf_entry entry;
    uint32_t seen = 0;
    if (!conf || !*conf)
        return MOIETY_OK;
    for (;; conf++) {
        moiety_status status = moietyi_conf_take(&conf, &entry);
        if (status == MOIETY_OK && moietyi_conf_is_for_hosts(&entry))
            status = apply(&entry, &seen, options);
        if (status != MOIETY_OK || *conf == '\0')
            return status;
    }
}
