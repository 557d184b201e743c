/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The text of BINADE_CONF, "key:value,key:value", taken apart. Which keys there
 * are and what they take is pool/config/options.c's. Nothing is copied: the
 * words lie in the text.
 */
#ifndef BINADE_POOL_CONFIG_CONF_H_
#define BINADE_POOL_CONFIG_CONF_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "binade/status.h"

/* A part of a text. */
struct binadei_word {
    const char *text; /* not ended by a 0 */
    size_t length;
};

struct binadei_conf_entry {
    struct binadei_word whole; /* as written */
    struct binadei_word key;
    struct binadei_word value; /* not empty */
};

/* How printf() gets a word: "%.*s" and this. Longer ones are cut, so that what
 * else a message says is seen. */
#define BINADEI_WORD_SHOWN_MAX ((size_t)64)
#define BINADEI_WORD_SHOWN(word)                                               \
    (int)((word).length < BINADEI_WORD_SHOWN_MAX ? (word).length               \
                                                 : BINADEI_WORD_SHOWN_MAX),    \
        (word).text

/* Takes the entry that `*text` begins with, and moves `*text` to what follows
 * it: a comma or the end. BINADE_OK, or BINADE_E_INVALID when it has no key, no
 * colon or no value. */
BINADE_MUST_USE binade_status binadei_conf_take(const char **text,
                                                struct binadei_conf_entry *out);

/* Whether the key begins with "host_": then the entry is for host arenas, and no
 * pool's; numa/arena/conf.c has them. */
bool binadei_conf_is_for_hosts(const struct binadei_conf_entry *entry);

/* Whether the key is "expose": then the entry is no pool's, but the process's;
 * pool/observe/expose/expose.c has it. */
bool binadei_conf_is_for_process(const struct binadei_conf_entry *entry);

/* Whether `word` is `text`. */
bool binadei_word_is(struct binadei_word word, const char *text);

/* Reads digits, and after them, where `takes_suffix`, one of K, M and G, or
 * KiB, MiB and GiB. False for anything else and for what 64 bits do not hold. */
bool binadei_word_number(struct binadei_word word, bool takes_suffix,
                         uint64_t *out);

#endif
