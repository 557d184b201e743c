/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Words and numbers, by hand: strtoull() would take "-1", "+1", " 1" and "0x1".
 */
#include "pool/config/conf.h"

#include <stdio.h>
#include <string.h>

#include "pool/base/failure.h"

moiety_status moietyi_conf_take(const char **text,
                                struct moietyi_conf_entry *out)
{
    struct moietyi_word whole = {*text, strcspn(*text, ",")};
    const char *colon = memchr(whole.text, ':', whole.length);
    size_t key_length = colon ? (size_t)(colon - whole.text) : whole.length;
    if (key_length == 0 || key_length + 1 >= whole.length) {
        return moietyi_fail(MOIETY_E_INVALID,
                            "MOIETY_CONF: entry '%.*s' has no %s; accepted are "
                            "key:value entries with a comma between two",
                            MOIETYI_WORD_SHOWN(whole),
                            key_length ? "value" : "key");
    }
    out->whole = whole;
    out->key = (struct moietyi_word){whole.text, key_length};
    out->value =
        (struct moietyi_word){colon + 1, whole.length - key_length - 1};
    *text = whole.text + whole.length;
    return MOIETY_OK;
}

bool moietyi_conf_is_for_hosts(const struct moietyi_conf_entry *entry)
{
    static const char prefix[] = "host_";
    return entry->key.length >= sizeof(prefix) - 1 &&
           memcmp(entry->key.text, prefix, sizeof(prefix) - 1) == 0;
}

bool moietyi_conf_is_for_process(const struct moietyi_conf_entry *entry)
{
    return moietyi_word_is(entry->key, "expose");
}

bool moietyi_word_is(struct moietyi_word word, const char *text)
{
    return word.length == strlen(text) &&
           memcmp(word.text, text, word.length) == 0;
}

/* In any locale; names are of lower case. */
static int lower(char letter)
{
    return letter >= 'A' && letter <= 'Z' ? letter - 'A' + 'a' : letter;
}

/* Levenshtein's distance: letters to put in, take out or change; an upper case
 * letter is as its lower case. `word` is one of
 * at most MOIETYI_WORD_SHOWN_MAX letters. */
static size_t distance(struct moietyi_word word, const char *name)
{
    size_t row[MOIETYI_WORD_SHOWN_MAX + 1];
    for (size_t i = 0; i <= word.length; i++)
        row[i] = i;
    for (size_t j = 1; name[j - 1]; j++) {
        size_t diagonal = row[0];
        row[0] = j;
        for (size_t i = 1; i <= word.length; i++) {
            size_t above = row[i];
            size_t best =
                diagonal + (lower(word.text[i - 1]) == name[j - 1] ? 0 : 1);
            if (above + 1 < best)
                best = above + 1;
            if (row[i - 1] + 1 < best)
                best = row[i - 1] + 1;
            row[i] = best;
            diagonal = above;
        }
    }
    return row[word.length];
}

/* The name that is most like the word; NULL if none is like it: less than half of
 * its letters differ. */
static const char *nearest(struct moietyi_word word, moietyi_key_name name_of)
{
    const char *found = NULL;
    size_t least = word.length / 2 + 1;
    if (word.length > MOIETYI_WORD_SHOWN_MAX)
        return NULL;
    for (size_t i = 0; name_of(i); i++) {
        size_t apart = distance(word, name_of(i));
        if (apart < least) {
            least = apart;
            found = name_of(i);
        }
    }
    return found;
}

moiety_status moietyi_conf_refuse_key(struct moietyi_word key,
                                      moietyi_key_name name_of)
{
    char names[512] = "";
    size_t length = 0;
    for (size_t i = 0; name_of(i); i++) {
        int written = snprintf(names + length, sizeof(names) - length, "%s%s",
                               i ? ", " : "", name_of(i));
        if (written < 0 || (size_t)written >= sizeof(names) - length)
            break;
        length += (size_t)written;
    }
    const char *like = nearest(key, name_of);
    return moietyi_fail(MOIETY_E_INVALID,
                        "MOIETY_CONF: key '%.*s' is not known%s%s%s; accepted "
                        "are %s",
                        MOIETYI_WORD_SHOWN(key), like ? ", did you mean '" : "",
                        like ? like : "", like ? "'?" : "", names);
}

/* The order of the suffix, or 0 for a character that is none. */
static unsigned order_of_suffix(char suffix)
{
    switch (suffix) {
    case 'K':
        return 10;
    case 'M':
        return 20;
    case 'G':
        return 30;
    default:
        return 0;
    }
}

bool moietyi_word_number(struct moietyi_word word, bool takes_suffix,
                         uint64_t *out)
{
    uint64_t value = 0;
    size_t i = 0;
    for (; i < word.length && word.text[i] >= '0' && word.text[i] <= '9'; i++) {
        uint64_t digit = (uint64_t)(word.text[i] - '0');
        if (value > (UINT64_MAX - digit) / 10)
            return false;
        value = 10 * value + digit;
    }
    if (i == 0)
        return false;
    unsigned order = 0;
    if (takes_suffix && i < word.length)
        order = order_of_suffix(word.text[i]);
    if (order)
        i++;
    /* 8G and 8GiB are the same; 8GB would be less, and is refused. */
    if (order && i + 2 == word.length && word.text[i] == 'i' &&
        word.text[i + 1] == 'B')
        i += 2;
    if (i != word.length || value > UINT64_MAX >> order)
        return false;
    *out = value << order;
    return true;
}
