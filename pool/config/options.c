/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The rules for options; all are checked, and nothing is rounded or ignored:
 *  1. A struct of a later version may have further fields, if they are 0. One
 *     of an earlier version has the defaults of those that it lacks.
 *  2. The program's values and those of MOIETY_CONF must each be in the range
 *     of the table below: one does not hide an error of the other. A program's 0
 *     is the default, and none has a name of its own; MOIETY_CONF's 0 is none.
 *  3. MOIETY_CONF names each key once at most and no key that is not there.
 *     What it names goes over what the program said. Keys of host arenas are
 *     for these, and "expose" is for the process. `trace` brings a history
 *     where none was asked for.
 *  4. Then, together: the first segment is not above the largest; a watermark
 *     is not above the limit; where threads have no caches there is no bound for
 *     all of them; that bound is not below the bound for one; what is for
 *     checked pools needs one; a pool that is checked or passes all through is
 *     not exportable; one that is mapped neither has a source nor passes all
 *     through; and peers are of a pool that may be mapped.
 */
#include "pool/config/options.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "moiety/history.h"
#include "pool/base/failure.h"
#include "pool/config/conf.h"

#define MIB (UINT64_C(1) << 20)
#define PAGE_BYTES (2 * MIB)

/* A struct_size above this is not a later version but a struct that nobody
 * filled in; reading so far could leave the caller's memory. */
#define STRUCT_BYTES_MAX 4096U

/* A key, and the field or the bit of a field that it stands for. */
struct setting {
    const char *key;
    const char *field; /* what the program calls it */
    const char *accepted;
    size_t offset_bytes;
    size_t width_bytes; /* 4 or 8 */
    uint64_t minimum;   /* of what is not 0 */
    uint64_t maximum;
    uint64_t multiple_of;
    uint64_t normal;          /* what a program's 0 means */
    uint64_t none;            /* what a program says for none; 0: 0 */
    const char *const *words; /* in MOIETY_CONF, for 0 and on; NULL ends them */
    uint32_t flag;            /* the bit; 0: the whole field is a number */
    bool takes_zero;          /* in MOIETY_CONF */
    bool takes_suffix;
    bool is_ordinals; /* in MOIETY_CONF; the field has a bit for each */
};

#define FIELD(name)                                                            \
    .field = #name, .offset_bytes = offsetof(moiety_pool_options, name),       \
    .width_bytes = sizeof(((moiety_pool_options *)NULL)->name)
#define BIT(name, bit)                                                         \
    FIELD(name), .flag = (bit), .minimum = 1, .maximum = 1, .multiple_of = 1,  \
                 .takes_zero = true, .accepted = "0 and 1"
#define FLAG(bit) BIT(flags, bit)
#define BYTES .maximum = MOIETYI_CAPACITY_BYTES, .takes_suffix = true
#define SEGMENT_BYTES                                                          \
    BYTES, .minimum = PAGE_BYTES, .multiple_of = PAGE_BYTES,                   \
           .accepted = "multiples of 2M up to 1024G"
#define CACHE_BYTES                                                            \
    BYTES, .minimum = 1, .multiple_of = 1, .takes_zero = true,                 \
           .accepted = "bytes from 0 to 1024G"

static const char *const memory_words[] = {"auto", "driver", "mapped", NULL};

static const struct setting settings[] = {
    {.key = "reuse_dependencies", FLAG(MOIETY_POOL_REUSE_DEPENDENCIES)},
    {.key = "report_leaks", FLAG(MOIETY_POOL_REPORT_LEAKS)},
    {.key = "exportable", FLAG(MOIETY_POOL_EXPORTABLE)},
    {.key = "auto_scope", FLAG(MOIETY_POOL_AUTO_SCOPE)},
    {.key = "note_streams", FLAG(MOIETY_POOL_NOTE_STREAMS)},
    {.key = "checked_fill", FLAG(MOIETY_POOL_CHECKED_FILL)},
    {.key = "checked_abort", FLAG(MOIETY_POOL_CHECKED_ABORT)},
    {.key = "checked_quiet", FLAG(MOIETY_POOL_CHECKED_QUIET)},
    {.key = "huge_tables", FLAG(MOIETY_POOL_HUGE_TABLES)},
    {.key = "memory",
     FIELD(memory),
     .words = memory_words,
     .minimum = 1,
     .maximum = MOIETY_MEMORY_MAPPED,
     .multiple_of = 1,
     .takes_zero = true,
     .accepted = "auto, driver and mapped"},
    {.key = "checked", BIT(mode, MOIETY_MODE_CHECKED)},
    {.key = "pass_through", BIT(mode, MOIETY_MODE_PASS_THROUGH)},
    {.key = "wait_ms",
     FIELD(wait_ms),
     .minimum = 1,
     .maximum = MOIETY_WAIT_NONE - 1,
     .multiple_of = 1,
     .takes_zero = true,
     .normal = 1000,
     .none = MOIETY_WAIT_NONE,
     .accepted = "milliseconds from 0 to 4294967294"},
    {.key = "limit",
     FIELD(limit_bytes),
     BYTES,
     .minimum = PAGE_BYTES,
     .multiple_of = 1,
     .takes_zero = true,
     .accepted = "0 and bytes from 2M to 1024G"},
    {.key = "first_segment",
     FIELD(first_segment_bytes),
     SEGMENT_BYTES,
     .normal = PAGE_BYTES},
    {.key = "largest_segment",
     FIELD(largest_segment_bytes),
     SEGMENT_BYTES,
     .normal = 1024 * MIB},
    {.key = "thread_cache",
     FIELD(thread_cache_bytes),
     CACHE_BYTES,
     .normal = 64 * MIB,
     .none = MOIETY_BYTES_NONE},
    {.key = "cache", FIELD(cache_bytes), CACHE_BYTES},
    {.key = "history",
     FIELD(history_entries),
     .minimum = 1,
     .maximum = MOIETY_HISTORY_ENTRIES_MAX,
     .multiple_of = 1,
     .takes_zero = true,
     .takes_suffix = true,
     .accepted = "entries from 0 to 1048576"},
    {.key = "watermark",
     FIELD(watermark_bytes),
     BYTES,
     .minimum = PAGE_BYTES,
     .multiple_of = 1,
     .takes_zero = true,
     .accepted = "0 and bytes from 2M to 1024G"},
    {.key = "quarantine",
     FIELD(quarantine_bytes),
     CACHE_BYTES,
     .normal = 64 * MIB,
     .none = MOIETY_BYTES_NONE},
    {.key = "peers",
     FIELD(peer_devices),
     .maximum = UINT64_MAX,
     .minimum = 1,
     .multiple_of = 1,
     .takes_zero = true,
     .is_ordinals = true,
     .accepted = "ordinals from 0 to 63, as 1+3"},
};

/* A file, and no field of the options. */
#define RECORD_KEY "trace"
#define RECORD_BIT (UINT32_C(1) << 31)

#define SETTING_COUNT (sizeof(settings) / sizeof(settings[0]))

/* The functions of a checked pool only. */
static const uint32_t checked_flags = MOIETY_POOL_CHECKED_FILL |
                                      MOIETY_POOL_CHECKED_ABORT |
                                      MOIETY_POOL_CHECKED_QUIET;
static const uint32_t known_flags =
    MOIETY_POOL_REUSE_DEPENDENCIES | MOIETY_POOL_REPORT_LEAKS |
    MOIETY_POOL_EXPORTABLE | MOIETY_POOL_AUTO_SCOPE | MOIETY_POOL_NOTE_STREAMS |
    MOIETY_POOL_CHECKED_FILL | MOIETY_POOL_CHECKED_ABORT |
    MOIETY_POOL_CHECKED_QUIET | MOIETY_POOL_HUGE_TABLES;

/* The whole field; for a flag that is all flags. */
static uint64_t options_field_of(const struct setting *setting,
                                 const moiety_pool_options *options)
{
    const char *at = (const char *)options + setting->offset_bytes;
    uint32_t narrow;
    uint64_t wide;
    if (setting->width_bytes == sizeof(narrow)) {
        memcpy(&narrow, at, sizeof(narrow));
        return narrow;
    }
    memcpy(&wide, at, sizeof(wide));
    return wide;
}

static void set_value(const struct setting *setting, uint64_t value,
                      moiety_pool_options *options)
{
    char *at = (char *)options + setting->offset_bytes;
    if (setting->flag) {
        uint64_t others =
            options_field_of(setting, options) & ~(uint64_t)setting->flag;
        value = value ? others | setting->flag : others;
    }
    uint32_t narrow = (uint32_t)value;
    if (setting->width_bytes == sizeof(narrow))
        memcpy(at, &narrow, sizeof(narrow));
    else
        memcpy(at, &value, sizeof(value));
}

/* Of a number that means itself. */
static bool is_in_range(const struct setting *setting, uint64_t value)
{
    if (value == 0)
        return setting->takes_zero;
    return value >= setting->minimum && value <= setting->maximum &&
           value % setting->multiple_of == 0;
}

/* Rule 1. */
moiety_status moietyi_options_copy(const moiety_pool_options *given,
                                   moiety_pool_options *out)
{
    uint32_t size_bytes = given->struct_size;
    if (size_bytes < MOIETYI_OPTIONS_BYTES_MIN ||
        size_bytes > STRUCT_BYTES_MAX) {
        return moietyi_fail(
            MOIETY_E_INVALID,
            "option struct_size is %" PRIu32 "; accepted are %zu to %u",
            size_bytes, MOIETYI_OPTIONS_BYTES_MIN, STRUCT_BYTES_MAX);
    }
    const char *bytes = (const char *)given;
    for (size_t i = sizeof(*out); i < size_bytes; i++) {
        if (bytes[i]) {
            return moietyi_fail(MOIETY_E_INVALID,
                                "an option that this library does not know is "
                                "set: byte %zu of %" PRIu32
                                "; accepted is 0 from byte %zu on",
                                i, size_bytes, sizeof(*out));
        }
    }
    *out = (moiety_pool_options)MOIETY_POOL_OPTIONS_INIT;
    memcpy(out, given, size_bytes < sizeof(*out) ? size_bytes : sizeof(*out));
    out->struct_size = (uint32_t)sizeof(*out);
    return MOIETY_OK;
}

/* Rule 2, for the program's values: afterwards each means itself. */
static moiety_status settle_given(const struct setting *setting,
                                  moiety_pool_options *options)
{
    uint64_t value = options_field_of(setting, options);
    if (value == 0 || (setting->none && value == setting->none)) {
        set_value(setting, value ? 0 : setting->normal, options);
        return MOIETY_OK;
    }
    return is_in_range(setting, value)
               ? MOIETY_OK
               : moietyi_fail(MOIETY_E_INVALID,
                              "option %s is %" PRIu64 "; accepted are %s",
                              setting->field, value, setting->accepted);
}

static moiety_status check_given(moiety_pool_options *options)
{
    moiety_status status = MOIETY_OK;
    if ((uint32_t)options->mode > MOIETY_MODE_CHECKED_PASS_THROUGH) {
        return moietyi_fail(MOIETY_E_INVALID,
                            "option mode is %" PRIu32 "; accepted are 0 to 3",
                            (uint32_t)options->mode);
    }
    if (options->flags & ~known_flags) {
        return moietyi_fail(MOIETY_E_INVALID,
                            "option flags is 0x%" PRIx32
                            "; accepted are the bits of 0x%" PRIx32,
                            options->flags, known_flags);
    }
    for (size_t i = 0; i < SETTING_COUNT && status == MOIETY_OK; i++)
        if (!settings[i].flag)
            status = settle_given(&settings[i], options);
    return status;
}

static const struct setting *options_find_setting(struct moietyi_word key)
{
    for (size_t i = 0; i < SETTING_COUNT; i++)
        if (moietyi_word_is(key, settings[i].key))
            return &settings[i];
    return NULL;
}

static const char *options_key(size_t index)
{
    static const char *const others[] = {RECORD_KEY, "expose"};
    size_t other = index - SETTING_COUNT;
    if (index < SETTING_COUNT)
        return settings[index].key;
    return other < sizeof(others) / sizeof(others[0]) ? others[other] : NULL;
}

/* `seen` has a bit for each key that an entry before this one named. */
static moiety_status see(const struct moietyi_conf_entry *entry, uint32_t bit,
                         uint32_t *seen)
{
    if (*seen & bit) {
        return moietyi_fail(MOIETY_E_INVALID,
                            "MOIETY_CONF: key '%.*s' is given twice, again as "
                            "'%.*s'; accepted is once",
                            MOIETYI_WORD_SHOWN(entry->key),
                            MOIETYI_WORD_SHOWN(entry->whole));
    }
    *seen |= bit;
    return MOIETY_OK;
}

static bool is_record(const struct moietyi_conf_entry *entry)
{
    return moietyi_word_is(entry->key, RECORD_KEY);
}

/* Numbers with a + between, a bit for each. */
static bool read_ordinals(struct moietyi_word word, uint64_t *out)
{
    *out = 0;
    for (size_t at = 0; at <= word.length;) {
        struct moietyi_word part = {word.text + at, 0};
        uint64_t ordinal;
        while (at + part.length < word.length && part.text[part.length] != '+')
            part.length++;
        if (!moietyi_word_number(part, false, &ordinal) || ordinal > 63)
            return false;
        *out |= UINT64_C(1) << ordinal;
        at += part.length + 1;
    }
    return true;
}

static bool options_read_word(const struct setting *setting,
                              struct moietyi_word word, uint64_t *out)
{
    for (*out = 0; setting->words[*out]; ++*out)
        if (moietyi_word_is(word, setting->words[*out]))
            return true;
    return false;
}

static bool read_value(const struct setting *setting, struct moietyi_word word,
                       uint64_t *out)
{
    if (setting->words)
        return options_read_word(setting, word, out);
    return setting->is_ordinals
               ? read_ordinals(word, out)
               : moietyi_word_number(word, setting->takes_suffix, out);
}

static moiety_status apply_entry(const struct moietyi_conf_entry *entry,
                                 uint32_t *seen, moiety_pool_options *options)
{
    if (is_record(entry))
        return see(entry, RECORD_BIT, seen);
    const struct setting *setting = options_find_setting(entry->key);
    if (!setting)
        return moietyi_conf_refuse_key(entry->key, options_key);
    moiety_status status =
        see(entry, UINT32_C(1) << (setting - settings), seen);
    if (status != MOIETY_OK)
        return status;
    uint64_t value;
    if (!read_value(setting, entry->value, &value) ||
        !is_in_range(setting, value))
        return moietyi_fail(
            MOIETY_E_INVALID, "MOIETY_CONF: %s is '%.*s'; accepted are %s",
            setting->key, MOIETYI_WORD_SHOWN(entry->value), setting->accepted);
    set_value(setting, value, options);
    return MOIETY_OK;
}

/* Rule 3, and rule 2 for the environment's values. */
static moiety_status apply_conf(const char *conf, moiety_pool_options *options)
{
    struct moietyi_conf_entry entry;
    uint32_t seen = 0;
    const char *text = conf;
    if (!conf || !*conf)
        return MOIETY_OK;
    for (;; text++) {
        moiety_status status = moietyi_conf_take(&text, &entry);
        if (status == MOIETY_OK && !moietyi_conf_is_for_hosts(&entry) &&
            !moietyi_conf_is_for_process(&entry))
            status = apply_entry(&entry, &seen, options);
        if (status != MOIETY_OK)
            return status;
        if (*text == '\0')
            break;
    }
    if (seen & RECORD_BIT && !options->history_entries)
        options->history_entries = MOIETYI_RECORD_ENTRIES;
    return MOIETY_OK;
}

bool moietyi_options_record(const char *conf, struct moietyi_word *out)
{
    struct moietyi_conf_entry entry;
    const char *text = conf;
    if (!conf || !*conf)
        return false;
    for (;; text++) {
        if (moietyi_conf_take(&text, &entry) != MOIETY_OK)
            return false;
        if (is_record(&entry)) {
            *out = entry.value;
            return true;
        }
        if (*text == '\0')
            return false;
    }
}

/* Rule 4, for modes and memory. */
static moiety_status check_mode(const moiety_pool_options *options)
{
    bool is_checked = (options->mode & MOIETY_MODE_CHECKED) != 0;
    bool is_passing = (options->mode & MOIETY_MODE_PASS_THROUGH) != 0;
    if (options->flags & checked_flags && !is_checked)
        return moietyi_fail(MOIETY_E_INVALID,
                            "checked_fill, checked_abort and checked_quiet are "
                            "without effect where checked is 0; accepted is 0");
    if (options->mode != MOIETY_MODE_PLAIN &&
        options->flags & MOIETY_POOL_EXPORTABLE)
        return moietyi_fail(MOIETY_E_INVALID,
                            "exportable is 1; accepted is 0 where checked or "
                            "pass_through is 1");
    if (is_passing && options->memory == MOIETY_MEMORY_MAPPED) {
        return moietyi_fail(MOIETY_E_INVALID,
                            "memory is mapped; accepted are auto and driver "
                            "where pass_through is 1: blocks of mapped memory "
                            "are no reservations");
    }
    if (options->peer_devices &&
        (is_passing || options->memory == MOIETY_MEMORY_DRIVER))
        return moietyi_fail(MOIETY_E_INVALID,
                            "peers are named; accepted is none where memory is "
                            "driver or pass_through is 1");
    return MOIETY_OK;
}

/* Rule 4. By the names of the keys: a value may come from either place. */
static moiety_status check_together(const moiety_pool_options *options)
{
    moiety_status status = check_mode(options);
    if (status != MOIETY_OK)
        return status;
    if (options->first_segment_bytes > options->largest_segment_bytes) {
        return moietyi_fail(MOIETY_E_INVALID,
                            "first_segment is %" PRIu64
                            " bytes; accepted is no more than largest_segment, "
                            "%" PRIu64,
                            options->first_segment_bytes,
                            options->largest_segment_bytes);
    }
    if (options->limit_bytes &&
        options->watermark_bytes > options->limit_bytes) {
        return moietyi_fail(MOIETY_E_INVALID,
                            "watermark is %" PRIu64
                            " bytes; accepted are 0 and no more than limit, "
                            "%" PRIu64,
                            options->watermark_bytes, options->limit_bytes);
    }
    if (options->cache_bytes == 0)
        return MOIETY_OK;
    if (options->thread_cache_bytes == 0) {
        return moietyi_fail(MOIETY_E_INVALID,
                            "cache is %" PRIu64
                            " bytes, without effect where thread_cache is 0; "
                            "accepted is 0",
                            options->cache_bytes);
    }
    if (options->cache_bytes < options->thread_cache_bytes) {
        return moietyi_fail(MOIETY_E_INVALID,
                            "cache is %" PRIu64
                            " bytes; accepted are 0 and no less than "
                            "thread_cache, %" PRIu64,
                            options->cache_bytes, options->thread_cache_bytes);
    }
    return MOIETY_OK;
}

void moietyi_options_say_none(moiety_pool_options *options)
{
    for (size_t i = 0; i < SETTING_COUNT; i++)
        if (settings[i].none && !options_field_of(&settings[i], options))
            set_value(&settings[i], settings[i].none, options);
}

moiety_status moietyi_options_resolve(const moiety_pool_options *given,
                                      const char *conf,
                                      moiety_pool_options *out)
{
    moiety_pool_options options = MOIETY_POOL_OPTIONS_INIT;
    moiety_status status = MOIETY_OK;
    if (given)
        status = moietyi_options_copy(given, &options);
    if (status == MOIETY_OK)
        status = check_given(&options);
    if (status == MOIETY_OK)
        status = apply_conf(conf, &options);
    if (status == MOIETY_OK)
        status = check_together(&options);
    if (status == MOIETY_OK)
        *out = options;
    return status;
}
