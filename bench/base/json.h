/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Values of JSON.
 */
#ifndef MOIETY_BENCH_BASE_JSON_H_
#define MOIETY_BENCH_BASE_JSON_H_

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* `is_ascii`: what is not ASCII becomes question marks; else it is UTF-8. */
void json_text(FILE *file, const char *text, bool is_ascii);
/* ,"KEY":"TEXT" and ,"KEY":true, in UTF-8. */
void json_text_field(FILE *file, const char *key, const char *text);
void json_flag_field(FILE *file, const char *key, bool is_set);
/* UINT64_MAX becomes null. */
void json_number(FILE *file, uint64_t number);

#endif
