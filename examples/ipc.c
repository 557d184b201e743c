/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * One block in two processes: the owner exports it and sends the bytes of the
 * handle; the importer reads the block, closes it, and says so. Only then does
 * the owner free the block and release the export.
 */
#include <moiety/ipc.h>
#include <moiety/moiety.h>

#include <stdio.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "driver.h"

enum { VALUE = 42, BYTES = 4096 };
/* The legacy stream: this program has only one. */
static const moiety_stream stream = MOIETY_STREAM_LEGACY;

static bool receive(int channel, void *bytes, size_t count)
{
    return recv(channel, bytes, count, MSG_WAITALL) == (ssize_t)count;
}

static bool send_all(int channel, const void *bytes, size_t count)
{
    return send(channel, bytes, count, MSG_NOSIGNAL) == (ssize_t)count;
}

/* The other process's part. */
static bool import(int channel)
{
    moiety_ipc_handle handle;
    moiety_devptr block;
    unsigned char bytes[BYTES] = {0};
    if (!driver_open() || !receive(channel, &handle, sizeof handle) ||
        !did(moiety_ipc_import(&handle, sizeof handle, NULL, &block), "import"))
        return false;
    bool is_good =
        driver_did(cuMemcpyDtoHAsync(bytes, block, BYTES, stream), "copy") &&
        driver_did(cuStreamSynchronize(stream), "wait");
    /* DONE: the copy is over. The trim closes the owner's segment here, which
     * the owner waits for before it frees memory of the driver. */
    is_good = did(moiety_ipc_close(block, MOIETY_STREAM_DONE, NULL), "close") &&
              did(moiety_ipc_trim(0, NULL), "trim") && is_good;
    driver_close();
    return is_good && bytes[0] == VALUE && bytes[BYTES - 1] == VALUE &&
           send_all(channel, "closed", 6);
}

static bool share(moiety_pool *pool, int channel)
{
    moiety_ipc_handle handle;
    moiety_devptr block;
    char answer[6];
    if (!did(moiety_alloc(pool, BYTES, stream, &block), "alloc"))
        return false;
    /* The importer's work has to come after what is written here. */
    bool is_good =
        driver_did(cuMemsetD8Async(block, VALUE, BYTES, stream), "memset") &&
        driver_did(cuStreamSynchronize(stream), "wait") &&
        did(moiety_ipc_export(pool, block, &handle), "export") &&
        send_all(channel, &handle, sizeof handle) &&
        receive(channel, answer, sizeof answer);
    is_good = did(moiety_free(pool, block, stream), "free") && is_good;
    return did(moiety_ipc_release_exports(pool, 0), "release") && is_good;
}

int main(void)
{
    int channels[2], status;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, channels) != 0)
        return 1;
    /* Before the first call of Moiety: a later child could not use it. */
    pid_t child = fork();
    if (child == 0)
        _exit(close(channels[0]) == 0 && import(channels[1]) ? 0 : 1);
    close(channels[1]);

    moiety_pool *pool;
    moiety_pool_options options = MOIETY_POOL_OPTIONS_INIT;
    options.flags = MOIETY_POOL_EXPORTABLE; /* and nothing else is in it */
    bool is_good = child > 0 && driver_open() &&
                   did(moiety_pool_create(&options, &pool), "pool") &&
                   share(pool, channels[0]) &&
                   did(moiety_pool_destroy(pool, NULL), "destroy");
    close(channels[0]);
    if (waitpid(child, &status, 0) != child || status != 0 || !is_good)
        return 1;
    printf("the other process read the block\n");
    return 0;
}
