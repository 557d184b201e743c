/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Pinned chunks, and copies to and from them in a section of the pool's context.
 */
#include "pool/graph/kept.h"

#include <stdlib.h>

#include "pool/base/clock.h"
#include "pool/base/failure.h"
#include "pool/driver/section.h"

#define CHUNK_BYTES (UINT64_C(256) << 20)
#define NAP_NS 20000L

struct moietyi_kept_chunk {
    struct moietyi_kept_chunk *next; /* behind it */
    char *memory;
    uint64_t size_bytes;
};

static moiety_status kept_add(struct moietyi_kept *kept,
                              const struct moietyi_driver *driver,
                              uint64_t size_bytes)
{
    struct moietyi_kept_chunk **end = &kept->first;
    struct moietyi_kept_chunk *chunk = calloc(1, sizeof(*chunk));
    void *memory = NULL;
    if (!chunk)
        return moietyi_fail(MOIETY_E_NO_HOST_MEMORY,
                            "no memory for the record of kept contents");
    moiety_status status =
        MOIETYI_CALL(driver, cuMemHostAlloc, (&memory, size_bytes, 0));
    if (status != MOIETY_OK) {
        free(chunk);
        return status;
    }
    chunk->memory = memory;
    chunk->size_bytes = size_bytes;
    while (*end)
        end = &(*end)->next;
    *end = chunk;
    kept->size_bytes += size_bytes;
    return MOIETY_OK;
}

moiety_status moietyi_kept_reserve(struct moietyi_kept *kept,
                                   struct moietyi_context *context,
                                   uint64_t size_bytes)
{
    struct moietyi_section section;
    kept->context = context;
    if (kept->size_bytes >= size_bytes)
        return MOIETY_OK;
    moiety_status status = moietyi_context_enter(context, &section);
    if (status != MOIETY_OK)
        return status;
    while (status == MOIETY_OK && kept->size_bytes < size_bytes) {
        uint64_t rest = size_bytes - kept->size_bytes;
        status = kept_add(kept, context->driver,
                          rest < CHUNK_BYTES ? rest : CHUNK_BYTES);
    }
    (void)moietyi_section_leave(&section);
    return status;
}

static moiety_status kept_copy_part(const struct moietyi_kept *kept,
                                    moiety_devptr address, char *memory,
                                    uint64_t bytes, bool is_back)
{
    const struct moietyi_driver *driver = kept->context->driver;
    return is_back ? MOIETYI_CALL(driver, cuMemcpyHtoDAsync,
                                  (address, memory, bytes, kept->stream))
                   : MOIETYI_CALL(driver, cuMemcpyDtoHAsync,
                                  (memory, address, bytes, kept->stream));
}

/* One piece may lie in several chunks. */
static moiety_status kept_copy_piece(const struct moietyi_kept *kept,
                                     const struct moietyi_kept_piece *piece,
                                     bool is_back)
{
    const struct moietyi_kept_chunk *chunk = kept->first;
    uint64_t at = piece->kept_at;
    uint64_t done = 0;
    moiety_status status = MOIETY_OK;
    for (; at >= chunk->size_bytes; chunk = chunk->next)
        at -= chunk->size_bytes;
    while (done < piece->size_bytes && status == MOIETY_OK) {
        uint64_t rest = piece->size_bytes - done;
        uint64_t room = chunk->size_bytes - at;
        uint64_t bytes = rest < room ? rest : room;
        status = kept_copy_part(kept, piece->address + done, chunk->memory + at,
                                bytes, is_back);
        done += bytes;
        at = 0;
        chunk = chunk->next;
    }
    return status;
}

/* Waits until queued work no longer uses the memory. A refusal is no answer, so
 * the driver is asked again. If it refuses that often in a row, the context
 * counts as lost: nothing runs in it, and it gets nothing back. */
static moiety_status kept_await(const struct moietyi_kept *kept)
{
    const struct moietyi_driver *driver = kept->context->driver;
    moiety_status status =
        MOIETYI_CALL(driver, cuStreamSynchronize, (kept->stream));
    int refusal_count = 0;
    if (status == MOIETY_OK)
        return MOIETY_OK;
    while (refusal_count < MOIETYI_UNDO_TRIES) {
        CUresult code = driver->cuStreamQuery(kept->stream);
        if (code == CUDA_SUCCESS)
            return MOIETY_OK;
        refusal_count = code == CUDA_ERROR_NOT_READY ? 0 : refusal_count + 1;
        moietyi_nap(NAP_NS);
    }
    moietyi_context_lose(kept->context, MOIETY_E_CONTEXT_DESTROYED);
    return status;
}

/* Kept like the memory: no refusal of the driver leaves one behind. */
static moiety_status kept_open_stream(struct moietyi_kept *kept)
{
    return kept->stream ? MOIETY_OK
                        : MOIETYI_CALL(kept->context->driver, cuStreamCreate,
                                       (&kept->stream, CU_STREAM_NON_BLOCKING));
}

static moiety_status kept_copy_all(struct moietyi_kept *kept,
                                   const struct moietyi_kept_piece *piece,
                                   bool is_back)
{
    moiety_status status = kept_open_stream(kept);
    if (status != MOIETY_OK)
        return status;
    for (; piece && status == MOIETY_OK; piece = piece->next)
        status = kept_copy_piece(kept, piece, is_back);
    moiety_status over = kept_await(kept);
    return status == MOIETY_OK ? over : status;
}

moiety_status moietyi_kept_copy(struct moietyi_kept *kept,
                                const struct moietyi_kept_piece *first,
                                bool is_back)
{
    struct moietyi_section section;
    if (!first)
        return MOIETY_OK;
    moiety_status status = moietyi_context_enter(kept->context, &section);
    if (status != MOIETY_OK)
        return status;
    status = kept_copy_all(kept, first, is_back);
    (void)moietyi_section_leave(&section);
    return status;
}

/* What the driver refuses at the end ends with the context. */
static bool kept_enter(struct moietyi_context *context,
                       struct moietyi_section *out)
{
    for (int i = 0; i < MOIETYI_UNDO_TRIES; i++)
        if (moietyi_context_enter(context, out) == MOIETY_OK)
            return true;
    return false;
}

static void kept_unpin(const struct moietyi_driver *driver, void *memory)
{
    for (int i = 0; i < MOIETYI_UNDO_TRIES; i++)
        if (driver->cuMemFreeHost(memory) == CUDA_SUCCESS)
            return;
}

void moietyi_kept_end(struct moietyi_kept *kept)
{
    struct moietyi_section section;
    if (!kept->first)
        return;
    bool is_inside = kept_enter(kept->context, &section);
    /* Once only: it may be gone though the driver refused. */
    if (is_inside && kept->stream)
        (void)kept->context->driver->cuStreamDestroy(kept->stream);
    while (kept->first) {
        struct moietyi_kept_chunk *chunk = kept->first;
        kept->first = chunk->next;
        if (is_inside)
            kept_unpin(kept->context->driver, chunk->memory);
        free(chunk);
    }
    if (is_inside)
        (void)moietyi_section_leave(&section);
    *kept = (struct moietyi_kept){0};
}
