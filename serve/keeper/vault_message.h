/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Messages between the two processes of a keeper, which are one program: for
 * vault.c and vault_ask.c.
 */
#ifndef MOIETY_SERVE_KEEPER_VAULT_MESSAGE_H_
#define MOIETY_SERVE_KEEPER_VAULT_MESSAGE_H_

#include <stdbool.h>

#include "serve/keeper/vault.h"

enum vault_verb { VAULT_PUT = 1, VAULT_DROP, VAULT_NEXT };

struct vault_message {
    uint32_t verb;
    int32_t status; /* moiety_status, of an answer */
    struct moietyi_record record;
};

/* False: the other end is gone, or the kernel has no memory. */
bool moietyi_vault_send(int socket, const struct vault_message *message,
                        int descriptor);
/* False: the other end is gone. `*out_is_cut`: a descriptor was lost. */
bool moietyi_vault_receive(int socket, struct vault_message *out,
                           int *out_descriptor, bool *out_is_cut);

#endif
