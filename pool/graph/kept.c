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
/* What the driver refuses at the end is tried again, as nobody would later; what
 * it refuses twice goes with the context. */
#define END_TRIES 2

struct binadei_kept_chunk {
    struct binadei_kept_chunk *next; /* behind it */
    char *memory;
    uint64_t size_bytes;
};

static binade_status kept_add(struct binadei_kept *kept,
                              const struct binadei_driver *driver,
                              uint64_t size_bytes)
{
    struct binadei_kept_chunk **end = &kept->first;
    struct binadei_kept_chunk *chunk = calloc(1, sizeof(*chunk));
    void *memory = NULL;
    if (!chunk)
        return binadei_fail(BINADE_E_NO_HOST_MEMORY,
                            "no memory for the record of kept contents");
    binade_status status =
        BINADEI_CALL(driver, cuMemHostAlloc, (&memory, size_bytes, 0));
    if (status != BINADE_OK) {
        free(chunk);
        return status;
    }
    chunk->memory = memory;
    chunk->size_bytes = size_bytes;
    while (*end)
        end = &(*end)->next;
    *end = chunk;
    kept->size_bytes += size_bytes;
    return BINADE_OK;
}

binade_status binadei_kept_reserve(struct binadei_kept *kept,
                                   struct binadei_context *context,
                                   uint64_t size_bytes)
{
    struct binadei_section section;
    kept->context = context;
    if (kept->size_bytes >= size_bytes)
        return BINADE_OK;
    binade_status status = binadei_context_enter(context, &section);
    if (status != BINADE_OK)
        return status;
    while (status == BINADE_OK && kept->size_bytes < size_bytes) {
        uint64_t rest = size_bytes - kept->size_bytes;
        status = kept_add(kept, context->driver,
                          rest < CHUNK_BYTES ? rest : CHUNK_BYTES);
    }
    (void)binadei_section_leave(&section);
    return status;
}

static binade_status kept_copy_part(const struct binadei_driver *driver,
                                    CUstream stream, binade_devptr address,
                                    char *memory, uint64_t bytes, bool is_back)
{
    return is_back ? BINADEI_CALL(driver, cuMemcpyHtoDAsync,
                                  (address, memory, bytes, stream))
                   : BINADEI_CALL(driver, cuMemcpyDtoHAsync,
                                  (memory, address, bytes, stream));
}

/* One piece may lie in several chunks. */
static binade_status kept_copy_piece(const struct binadei_kept *kept,
                                     const struct binadei_driver *driver,
                                     CUstream stream,
                                     const struct binadei_kept_piece *piece,
                                     bool is_back)
{
    const struct binadei_kept_chunk *chunk = kept->first;
    uint64_t at = piece->kept_at;
    uint64_t done = 0;
    binade_status status = BINADE_OK;
    for (; at >= chunk->size_bytes; chunk = chunk->next)
        at -= chunk->size_bytes;
    while (done < piece->size_bytes && status == BINADE_OK) {
        uint64_t rest = piece->size_bytes - done;
        uint64_t room = chunk->size_bytes - at;
        uint64_t bytes = rest < room ? rest : room;
        status = kept_copy_part(driver, stream, piece->address + done,
                                chunk->memory + at, bytes, is_back);
        done += bytes;
        at = 0;
        chunk = chunk->next;
    }
    return status;
}

/* Until what was queued uses the memory no more, also where the driver fails to
 * wait: then it is asked. One that does not answer either has lost the context,
 * where nothing runs any more. */
static binade_status kept_await(const struct binadei_driver *driver,
                                CUstream stream)
{
    CUresult answer;
    binade_status status = BINADEI_CALL(driver, cuStreamSynchronize, (stream));
    if (status == BINADE_OK)
        return BINADE_OK;
    while ((answer = driver->cuStreamQuery(stream)) == CUDA_ERROR_NOT_READY)
        binadei_nap(NAP_NS);
    return answer == CUDA_SUCCESS ? BINADE_OK : status;
}

static binade_status kept_copy_on(const struct binadei_kept *kept,
                                  const struct binadei_driver *driver,
                                  const struct binadei_kept_piece *pieces,
                                  uint32_t count, bool is_back)
{
    CUstream stream;
    binade_status status =
        BINADEI_CALL(driver, cuStreamCreate, (&stream, CU_STREAM_NON_BLOCKING));
    if (status != BINADE_OK)
        return status;
    for (uint32_t i = 0; i < count && status == BINADE_OK; i++)
        status = kept_copy_piece(kept, driver, stream, &pieces[i], is_back);
    binade_status over = kept_await(driver, stream);
    (void)driver->cuStreamDestroy(stream);
    return status == BINADE_OK ? over : status;
}

binade_status binadei_kept_copy(const struct binadei_kept *kept,
                                const struct binadei_kept_piece *pieces,
                                uint32_t count, bool is_back)
{
    struct binadei_section section;
    if (!count)
        return BINADE_OK;
    binade_status status = binadei_context_enter(kept->context, &section);
    if (status != BINADE_OK)
        return status;
    status = kept_copy_on(kept, kept->context->driver, pieces, count, is_back);
    (void)binadei_section_leave(&section);
    return status;
}

static bool kept_enter(struct binadei_context *context,
                       struct binadei_section *out)
{
    for (int i = 0; i < END_TRIES; i++)
        if (binadei_context_enter(context, out) == BINADE_OK)
            return true;
    return false;
}

static void kept_unpin(const struct binadei_driver *driver, void *memory)
{
    for (int i = 0; i < END_TRIES; i++)
        if (driver->cuMemFreeHost(memory) == CUDA_SUCCESS)
            return;
}

void binadei_kept_end(struct binadei_kept *kept)
{
    struct binadei_section section;
    if (!kept->first)
        return;
    bool is_inside = kept_enter(kept->context, &section);
    while (kept->first) {
        struct binadei_kept_chunk *chunk = kept->first;
        kept->first = chunk->next;
        if (is_inside)
            kept_unpin(kept->context->driver, chunk->memory);
        free(chunk);
    }
    if (is_inside)
        (void)binadei_section_leave(&section);
    *kept = (struct binadei_kept){0};
}
