/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A plugin that contains the archive.
 */
#include <binade/binade.h>

int plugin_use(void);

/* A pool is left behind, and the thread's caches with it. */
int plugin_use(void)
{
    binade_pool_options options = BINADE_POOL_OPTIONS_INIT;
    binade_pool *pool;
    binade_devptr block;
    binade_status status = binade_pool_create(&options, &pool);
    if (status == BINADE_OK)
        status = binade_alloc(pool, 4096, BINADE_STREAM_LEGACY, &block);
    return status == BINADE_OK ? binade_free(pool, block, BINADE_STREAM_LEGACY)
                               : status;
}
