/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "bench/replay/trace/fields.h"

#include <string.h>

#include "bench/replay/trace/trace.h"

bool replay_take_space(const char **at)
{
    return *(*at)++ == ' ';
}

bool replay_take_number(const char **at, uint64_t *out)
{
    const char *digit = *at;
    uint64_t value = 0;
    for (; *digit >= '0' && *digit <= '9'; digit++) {
        if (__builtin_mul_overflow(value, 10U, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*digit - '0'), &value))
            return false;
    }
    bool is_number = digit > *at && (**at != '0' || digit == *at + 1);
    *at = digit;
    *out = value;
    return is_number;
}

/* How many bytes follow the first one of a character, and its own bits; -1: it
 * begins none. */
static int follower_count(unsigned char byte, uint32_t *bits)
{
    if (byte < 0x80) {
        *bits = byte;
        return 0;
    }
    if (byte >= 0xc2 && byte < 0xe0) {
        *bits = byte & 0x1fU;
        return 1;
    }
    if ((byte & 0xf0U) == 0xe0) {
        *bits = byte & 0x0fU;
        return 2;
    }
    *bits = byte & 0x07U;
    return byte >= 0xf0 && byte < 0xf5 ? 3 : -1;
}

static bool is_allowed(uint32_t character, int followers)
{
    static const uint32_t least[] = {0x20, 0xa0, 0x800, 0x10000};
    return character >= least[followers] && character != 0x7f &&
           character <= 0x10ffff && (character < 0xd800 || character > 0xdfff);
}

/* One character; false: there is none, or one that no text has. `text` is ended
 * by NUL, which continues no character. */
static bool take_character(const unsigned char **text)
{
    uint32_t character;
    int followers = follower_count(*(*text)++, &character);
    for (int i = 0; i < followers; i++, (*text)++) {
        if ((**text & 0xc0U) != 0x80)
            return false;
        character = character << 6 | (**text & 0x3fU);
    }
    return followers >= 0 && is_allowed(character, followers);
}

bool replay_is_text(const char *text, size_t length_bytes)
{
    if (length_bytes == 0 || length_bytes > REPLAY_TEXT_BYTES_MAX)
        return false;
    if (text[0] == ' ' || text[length_bytes - 1] == ' ')
        return false;
    const unsigned char *at = (const unsigned char *)text;
    while (at < (const unsigned char *)text + length_bytes)
        if (!take_character(&at))
            return false;
    return true;
}

static bool is_digits(const char *text, uint64_t *out)
{
    uint64_t value = 0;
    size_t count = strspn(text, "0123456789abcdef");
    if (count == 0 || count > 16 || text[count] || text[0] == '0')
        return false;
    for (; *text; text++)
        value = value << 4 |
                (uint64_t)(*text <= '9' ? *text - '0' : *text - 'a' + 10);
    *out = value;
    return true;
}

bool replay_is_stream(const char *text, uint64_t *out)
{
    static const struct {
        const char *word;
        uint64_t handle;
    } words[] = {
        {"null", REPLAY_HANDLE_NULL},
        {"legacy", REPLAY_HANDLE_LEGACY},
        {"per_thread", REPLAY_HANDLE_PER_THREAD},
        {"done", REPLAY_HANDLE_DONE},
        {"any", REPLAY_HANDLE_ANY},
    };
    bool is_number = strncmp(text, "0x", 2) == 0 && is_digits(text + 2, out);
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (is_number && *out == words[i].handle)
            return false;
        if (strcmp(text, words[i].word) == 0) {
            *out = words[i].handle;
            return true;
        }
    }
    return is_number;
}
