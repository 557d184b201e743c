/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What is answered to a request: one JSON object and the end of a line.
 */
#ifndef MOIETY_POOL_OBSERVE_EXPOSE_ANSWER_H_
#define MOIETY_POOL_OBSERVE_EXPOSE_ANSWER_H_

#include "pool/observe/expose/wire.h"

/* Newest entries of a pool's history that an answer has. */
#define MOIETYI_ANSWER_ENTRIES_MAX ((size_t)1 << 16)

/* `text` is the request. */
void moietyi_answer(struct moietyi_wire *wire, const char *text);

#endif
