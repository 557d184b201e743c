/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Processes that share blocks across the two devices: an owner fills a block of
 * one, an importer copies it to the other one, and writes it from there.
 */
#include <inttypes.h>

#include "moiety/ipc.h"
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/tools/pools.h"
#include "tests/truth/kit.h"
#include "tests/twogpus/twogpus.h"

#define SHARED_BYTES (48 * MIB)
#define SHARED_WORDS (SHARED_BYTES / sizeof(uint32_t))
#define ANSWER 1000U /* what the importer adds to a word */

/* One of the two. */
struct side {
    moiety_pool *pool;
    CUcontext context;
    CUstream stream;
    uint32_t *words; /* of the host, as many as a block has */
    uint32_t count;  /* of blocks, one after the other */
    int socket;
    bool is_mapped;
};

static void tell(const struct side *side, const void *bytes, size_t count)
{
    kit_require(write(side->socket, bytes, count) == (ssize_t)count, "write");
}

static void hear(const struct side *side, void *out, size_t count)
{
    kit_require(recv(side->socket, out, count, MSG_WAITALL) == (ssize_t)count,
                "the other process");
}

static void begin(struct side *side, int device, uint32_t flags)
{
    moiety_pool_options pool = driver_options();
    side->context = twogpus_context(device);
    MUST(cu.cuStreamCreate(&side->stream, CU_STREAM_NON_BLOCKING));
    side->words = malloc(SHARED_BYTES);
    kit_require(side->words != NULL, "malloc");
    pool.device = device;
    set_kind(&pool, flags);
    WELL(moiety_pool_create(&pool, &side->pool));
}

static void fill(const struct side *side, moiety_devptr block, uint32_t word)
{
    MUST(cu.cuMemsetD32Async(block, word, SHARED_WORDS, side->stream));
}

static uint64_t wrong_words(const struct side *side, moiety_devptr block,
                            uint32_t word)
{
    uint64_t wrong = 0;
    side->words[0] = ~word;
    MUST(cu.cuMemcpyDtoHAsync(side->words, block, SHARED_BYTES, side->stream));
    MUST(cu.cuStreamSynchronize(side->stream));
    for (size_t i = 0; i < SHARED_WORDS; i++)
        wrong += side->words[i] != word;
    return wrong;
}

/* The block lies behind another, which is longer each time. */
static uint64_t own_one(const struct side *side, uint32_t word)
{
    char done;
    moiety_devptr first;
    moiety_devptr block;
    moiety_ipc_handle handle;
    WELL(moiety_alloc(side->pool, 3 * MIB * word + 512, side->stream, &first));
    WELL(moiety_alloc(side->pool, SHARED_BYTES, side->stream, &block));
    fill(side, block, word);
    MUST(cu.cuStreamSynchronize(side->stream));
    if (side->is_mapped) {
        WELL(moiety_ipc_send(side->pool, block, side->socket));
    } else {
        WELL(moiety_ipc_export(side->pool, block, &handle));
        tell(side, &handle, sizeof(handle));
    }
    hear(side, &done, sizeof(done)); /* it is closed there */
    uint64_t wrong = wrong_words(side, block, word + ANSWER);
    WELL(moiety_ipc_release_exports(side->pool, 0));
    WELL(moiety_free(side->pool, block, side->stream));
    WELL(moiety_free(side->pool, first, side->stream));
    tell(side, &done, sizeof(done));
    return wrong;
}

static moiety_devptr receive(const struct side *side)
{
    moiety_devptr block;
    moiety_ipc_handle handle;
    if (side->is_mapped) {
        WELL(moiety_ipc_receive(side->socket, side->context, NULL, &block));
    } else {
        hear(side, &handle, sizeof(handle));
        WELL(moiety_ipc_import(&handle, sizeof(handle), side->context, &block));
    }
    return block;
}

static uint64_t import_one(const struct side *side, uint32_t word)
{
    char done = 0;
    moiety_devptr block = receive(side);
    moiety_devptr mine;
    WELL(moiety_alloc(side->pool, SHARED_BYTES, side->stream, &mine));
    fill(side, mine, 0);
    MUST(cu.cuMemcpyAsync(mine, block, SHARED_BYTES, side->stream));
    uint64_t wrong = wrong_words(side, mine, word);
    fill(side, mine, word + ANSWER);
    MUST(cu.cuMemcpyAsync(block, mine, SHARED_BYTES, side->stream));
    WELL(moiety_free(side->pool, mine, side->stream));
    MUST(cu.cuStreamSynchronize(side->stream));
    WELL(moiety_ipc_close(block, side->stream, NULL));
    WELL(moiety_ipc_trim(0, NULL));
    tell(side, &done, sizeof(done));
    hear(side, &done, sizeof(done));
    return wrong;
}

static int run_side(struct side *side, const char *driver, int device,
                    bool is_owner)
{
    uint64_t wrong = 0;
    twogpus_open(driver);
    begin(side, device,
          is_owner
              ? MOIETY_POOL_EXPORTABLE | (side->is_mapped ? KIND_MAPPED : 0)
              : 0);
    for (uint32_t word = 1; word <= side->count; word++)
        wrong += is_owner ? own_one(side, word) : import_one(side, word);
    WELL(moiety_pool_destroy(side->pool, NULL));
    printf("{\"kind\":\"twogpus-ipc\",\"side\":\"%s\",\"device\":%d,"
           "\"mapped\":%d,\"words\":%zu,\"wrong_words\":%" PRIu64 "}\n",
           is_owner ? "owner" : "importer", device, side->is_mapped,
           side->count * SHARED_WORDS, wrong);
    (void)fflush(NULL);
    return wrong ? EXIT_WRONG : EXIT_RIGHT;
}

static int exit_code(pid_t child)
{
    int status;
    kit_require(waitpid(child, &status, 0) == child, "waitpid");
    return WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_WRONG;
}

int twogpus_share(const char *driver, uint32_t count, int device,
                  bool is_mapped)
{
    int ends[2];
    pid_t children[2];
    int codes[2];
    kit_require(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0, "socketpair");
    (void)fflush(NULL);
    for (int i = 0; i < 2; i++) {
        children[i] = fork();
        kit_require(children[i] >= 0, "fork");
        if (children[i] == 0) {
            struct side side = {
                .count = count, .socket = ends[i], .is_mapped = is_mapped};
            (void)close(ends[1 - i]);
            _exit(run_side(&side, driver, i ? 1 - device : device, i == 0));
        }
    }
    (void)close(ends[0]);
    (void)close(ends[1]);
    for (int i = 0; i < 2; i++)
        codes[i] = exit_code(children[i]);
    return codes[0] > codes[1] ? codes[0] : codes[1];
}
