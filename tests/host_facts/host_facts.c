/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Prints one line for each fact, or one JSON object. Exits 0 also when the
 * host refuses things: a refusal is a fact. It exits 1 when a fact could not
 * be found out, 2 for arguments that it does not know.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "tests/host_facts/facts.h"

void facts_add(struct facts *facts, const char *key, const char *format, ...)
{
    if (facts->count == FACT_MAX) {
        facts->is_complete = false;
        return;
    }
    struct fact *fact = &facts->all[facts->count++];
    va_list arguments;
    va_start(arguments, format);
    fact->key = key;
    (void)vsnprintf(fact->value, sizeof fact->value, format, arguments);
    va_end(arguments);
}

void facts_add_unknown(struct facts *facts, const char *key, const char *why)
{
    facts->is_complete = false;
    facts_add(facts, key, "could not be determined (%s)", why);
}

static void print_json_string(const char *text)
{
    putchar('"');
    for (; *text != '\0'; text++) {
        unsigned char byte = (unsigned char)*text;
        if (byte == '"' || byte == '\\')
            printf("\\%c", byte);
        else if (byte < 0x20)
            printf("\\u%04x", byte);
        else
            putchar(byte);
    }
    putchar('"');
}

static void print_json(const struct facts *facts)
{
    printf("{");
    for (size_t i = 0; i < facts->count; i++) {
        printf("%s\n  ", i == 0 ? "" : ",");
        print_json_string(facts->all[i].key);
        printf(": ");
        print_json_string(facts->all[i].value);
    }
    printf("\n}\n");
}

static void print_lines(const struct facts *facts)
{
    for (size_t i = 0; i < facts->count; i++)
        printf("fact: %s = %s\n", facts->all[i].key, facts->all[i].value);
}

int main(int argument_count, char **arguments)
{
    static struct facts facts = {.is_complete = true};
    const char *option = argument_count > 1 ? arguments[1] : "";
    bool is_json = strcmp(option, "--json") == 0;

    if (argument_count == 2 && strcmp(option, "--importer") == 0)
        return facts_play_importer();
    if (argument_count > 2 || (argument_count == 2 && !is_json)) {
        fprintf(stderr, "usage: host_facts [--json]\n");
        return 2;
    }
    facts_of_machine(&facts);
    facts_of_driver(&facts);
    if (is_json)
        print_json(&facts);
    else
        print_lines(&facts);
    return facts.is_complete ? 0 : 1;
}
