/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A plugin that contains the archive.
 */
#include <moiety/moiety.h>

#include <stdint.h>

int plugin_use(void);
int plugin_has(void *function);

/* A pool is left behind, and the thread's caches with it. */
int plugin_use(void)
{
    moiety_pool_options options = MOIETY_POOL_OPTIONS_INIT;
    moiety_pool *pool;
    moiety_devptr block;
    moiety_status status = moiety_pool_create(&options, &pool);
    if (status == MOIETY_OK)
        status = moiety_alloc(pool, 4096, MOIETY_STREAM_LEGACY, &block);
    return status == MOIETY_OK ? moiety_free(pool, block, MOIETY_STREAM_LEGACY)
                               : status;
}

/* Whether a function is the copy's own. */
int plugin_has(void *function)
{
    return (void *)(uintptr_t)moiety_alloc == function;
}
