/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What is answered to a request: one JSON object and the end of a line.
 */
#ifndef BINADE_POOL_OBSERVE_EXPOSE_ANSWER_H_
#define BINADE_POOL_OBSERVE_EXPOSE_ANSWER_H_

#include "pool/observe/expose/wire.h"

/* Newest entries of a pool's history that an answer has. */
#define BINADEI_ANSWER_ENTRIES_MAX ((size_t)1 << 16)

/* `text` is the request. */
void binadei_answer(struct binadei_wire *wire, const char *text);

#endif
