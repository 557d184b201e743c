/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What a GPU host is and lets a program do. Hosts differ in what they refuse
 * (containers, system-call filters), so results carry these facts.
 */
#ifndef MOIETY_TESTS_HOST_FACTS_FACTS_H_
#define MOIETY_TESTS_HOST_FACTS_FACTS_H_

#include <stdbool.h>
#include <stddef.h>

#define FACT_MAX 32
#define FACT_VALUE_BYTES 192

struct fact {
    const char *key;
    char value[FACT_VALUE_BYTES];
};

struct facts {
    struct fact all[FACT_MAX];
    size_t count;
    bool is_complete; /* false once one could not be determined */
};

/* Adds one fact; the value is formatted as by printf and cut to its room. */
void facts_add(struct facts *facts, const char *key, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* "works", or "refused here (ENAME)" for an errno that is not 0. */
void facts_add_verdict(struct facts *facts, const char *key, int error);

/* Adds a fact that nothing could be found out about, and why. */
void facts_add_unknown(struct facts *facts, const char *key, const char *why);

void facts_of_machine(struct facts *facts);
void facts_of_driver(struct facts *facts);

/* The other end of the two-process facts: opens the memory whose handle comes
 * on standard input and writes the CUresult to standard output. */
int facts_play_importer(void);

#endif
