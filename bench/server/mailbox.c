/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "bench/server/mailbox.h"

#include <string.h>

bool server_mailbox_post(struct server_mailbox *mailbox,
                         const struct server_block *block)
{
    (void)pthread_mutex_lock(&mailbox->lock);
    bool has_room = mailbox->count < SERVER_MAILBOX_BLOCKS;
    if (has_room)
        mailbox->blocks[mailbox->count++] = *block;
    (void)pthread_mutex_unlock(&mailbox->lock);
    return has_room;
}

unsigned server_mailbox_collect(struct server_mailbox *mailbox,
                                struct server_block *out)
{
    (void)pthread_mutex_lock(&mailbox->lock);
    unsigned count = mailbox->count;
    memcpy(out, mailbox->blocks, count * sizeof(*out));
    mailbox->count = 0;
    (void)pthread_mutex_unlock(&mailbox->lock);
    return count;
}
