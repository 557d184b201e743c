/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The text of MOIETY_CONF, "key:value,key:value", taken apart. Which keys there
 * are and what they take is pool/config/options.c's. Nothing is copied: the
 * words lie in the text.
 */
#ifndef MOIETY_POOL_CONFIG_CONF_H_
#define MOIETY_POOL_CONFIG_CONF_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "moiety/status.h"

/* A part of a text. */
struct moietyi_word {
    const char *text; /* not ended by a 0 */
    size_t length;
};

struct moietyi_conf_entry {
    struct moietyi_word whole; /* as written */
    struct moietyi_word key;
    struct moietyi_word value; /* not empty */
};

/* How printf() gets a word: "%.*s" and this. Longer ones are cut, so that what
 * else a message says is seen. */
#define MOIETYI_WORD_SHOWN_MAX ((size_t)64)
#define MOIETYI_WORD_SHOWN(word)                                               \
    (int)((word).length < MOIETYI_WORD_SHOWN_MAX ? (word).length               \
                                                 : MOIETYI_WORD_SHOWN_MAX),    \
        (word).text

/* Takes the entry that `*text` begins with, and moves `*text` to what follows
 * it: a comma or the end. MOIETY_OK, or MOIETY_E_INVALID when it has no key, no
 * colon or no value. */
MOIETY_MUST_USE moiety_status moietyi_conf_take(const char **text,
                                                struct moietyi_conf_entry *out);

/* Whether the key begins with "host_": then the entry is for host arenas, and no
 * pool's; numa/arena/conf.c has them. */
bool moietyi_conf_is_for_hosts(const struct moietyi_conf_entry *entry);

/* Whether the key is "expose": then the entry is no pool's, but the process's;
 * pool/observe/expose/expose.c has it. */
bool moietyi_conf_is_for_process(const struct moietyi_conf_entry *entry);

/* Whether `word` is `text`. */
bool moietyi_word_is(struct moietyi_word word, const char *text);

/* The name of a key, from 0 on; NULL behind the last. */
typedef const char *(*moietyi_key_name)(size_t index);

/* MOIETY_E_INVALID, with the key that is most like `key`, and with all of them. */
MOIETY_MUST_USE moiety_status moietyi_conf_refuse_key(struct moietyi_word key,
                                                      moietyi_key_name name_of);

/* Reads digits, and after them, where `takes_suffix`, one of K, M and G, or
 * KiB, MiB and GiB. False for anything else and for what 64 bits do not hold. */
bool moietyi_word_number(struct moietyi_word word, bool takes_suffix,
                         uint64_t *out);

#endif
