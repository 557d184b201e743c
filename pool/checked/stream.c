/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Streams by their identity: a handle may come back as that of another stream,
 * its number (cuStreamGetId) does not. A pool that is told of a stream's end
 * forgets the number.
 */
#include <stdlib.h>

#include "pool/base/failure.h"
#include "pool/cache/uses.h"
#include "pool/checked/state.h"
#include "pool/driver/section.h"

static bool checked_stream_is_created(moiety_stream stream)
{
    return stream && stream != MOIETY_STREAM_LEGACY &&
           stream != MOIETY_STREAM_PER_THREAD && stream != MOIETY_STREAM_ANY &&
           stream != MOIETY_STREAM_DONE;
}

static struct moietyi_stream_name **
checked_stream_find(struct moietyi_checked *checked, CUstream stream)
{
    uint64_t mixed = ((uintptr_t)stream >> 3) * UINT64_C(0x9E3779B97F4A7C15);
    struct moietyi_stream_name **at =
        &checked->streams[(mixed >> 32) % MOIETYI_STREAM_BUCKETS];
    while (*at && (*at)->stream != stream)
        at = &(*at)->next;
    return at;
}

/* The record of a stream. */
enum known { KNOWN_SAME, KNOWN_OTHER, KNOWN_NOT };

static enum known look_up(struct moietyi_checked *checked, CUstream stream,
                          unsigned long long id)
{
    pthread_mutex_lock(&checked->lock);
    const struct moietyi_stream_name *name =
        *checked_stream_find(checked, stream);
    enum known known = KNOWN_NOT;
    if (name)
        known = name->id == id ? KNOWN_SAME : KNOWN_OTHER;
    pthread_mutex_unlock(&checked->lock);
    return known;
}

/* Without memory it stays unknown. */
static void learn(struct moietyi_checked *checked, CUstream stream,
                  unsigned long long id)
{
    struct moietyi_stream_name *name = malloc(sizeof(*name));
    if (!name)
        return;
    *name = (struct moietyi_stream_name){NULL, stream, id};
    pthread_mutex_lock(&checked->lock);
    struct moietyi_stream_name **at = checked_stream_find(checked, stream);
    if (*at)
        free(name);
    else
        *at = name;
    pthread_mutex_unlock(&checked->lock);
}

/* Not while it captures, or may: to be asked for its number breaks a capture. */
static CUresult ask_calm(const struct moietyi_driver *driver, CUstream stream,
                         unsigned long long *out_id)
{
    CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
    CUresult code = driver->cuStreamIsCapturing(stream, &capture);
    if (code != CUDA_SUCCESS)
        return code;
    return capture == CU_STREAM_CAPTURE_STATUS_NONE
               ? driver->cuStreamGetId(stream, out_id)
               : CUDA_ERROR_NOT_SUPPORTED;
}

static CUresult checked_stream_ask(const struct moietyi_checked *checked,
                                   CUstream stream, unsigned long long *out_id)
{
    const struct moietyi_driver *driver = checked->body->driver;
    struct moietyi_section section;
    if (!driver->cuStreamGetId ||
        moietyi_context_enter(&checked->body->own_context, &section) !=
            MOIETY_OK)
        return CUDA_ERROR_NOT_SUPPORTED;
    CUresult code = ask_calm(driver, stream, out_id);
    (void)moietyi_section_leave(&section);
    return code;
}

static bool checked_stream_is_dead(CUresult code)
{
    return code == CUDA_ERROR_INVALID_HANDLE ||
           code == CUDA_ERROR_INVALID_CONTEXT ||
           code == CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

static moiety_status report_dead(struct moietyi_checked *checked,
                                 CUstream stream, bool is_other)
{
    struct moietyi_text text = {0};
    pthread_mutex_lock(&checked->lock);
    checked->counts.dead_streams++;
    pthread_mutex_unlock(&checked->lock);
    moietyi_text_add(&text,
                     "stream 0x%llx was destroyed without "
                     "moiety_pool_retire_stream()%s",
                     (unsigned long long)(uintptr_t)stream,
                     is_other ? ", and its handle is another stream's now"
                              : "");
    moietyi_finding(checked, &text, NULL);
    return moietyi_fail(MOIETY_E_INVALID, "%s", text.bytes);
}

moiety_status moietyi_checked_stream(struct moietyi_checked *checked,
                                     moiety_stream stream)
{
    unsigned long long id = 0;
    if (!checked->is_checked || !checked_stream_is_created(stream))
        return MOIETY_OK;
    CUresult code = checked_stream_ask(checked, stream, &id);
    if (code != CUDA_SUCCESS && !checked_stream_is_dead(code))
        return MOIETY_OK;
    enum known known = look_up(checked, stream, id);
    if (code != CUDA_SUCCESS)
        /* The caches say of one that never was a stream that it is none. */
        return known == KNOWN_NOT ? MOIETY_OK
                                  : report_dead(checked, stream, false);
    if (known == KNOWN_OTHER)
        return report_dead(checked, stream, true);
    if (known == KNOWN_NOT)
        learn(checked, stream, id);
    return MOIETY_OK;
}

moiety_status moietyi_checked_stranger(const struct moietyi_call *call)
{
    struct moietyi_checked *checked = call->pool->body->checked;
    struct moietyi_text text = {0};
    if (!checked->is_checked || !moietyi_wait_is_of_stranger(call))
        return MOIETY_OK;
    pthread_mutex_lock(&checked->lock);
    checked->counts.foreign_streams++;
    pthread_mutex_unlock(&checked->lock);
    moietyi_text_add(&text,
                     "stream 0x%llx is of a context that the pool does not "
                     "know: see moiety_pool_add_context()",
                     (unsigned long long)(uintptr_t)call->stream);
    moietyi_finding(checked, &text, NULL);
    return moietyi_fail(MOIETY_E_INVALID, "%s", text.bytes);
}

/* Whether the driver may be asked: a query would break a capture. */
static bool may_query(struct moietyi_call *call, moiety_stream stream)
{
    struct moietyi_checked *checked = call->pool->body->checked;
    unsigned long long id;
    const struct moietyi_driver *driver = checked->body->driver;
    return checked_stream_is_created(stream) && driver->cuStreamGetId &&
           ask_calm(driver, stream, &id) == CUDA_SUCCESS &&
           look_up(checked, stream, id) == KNOWN_SAME;
}

void moietyi_checked_count_busy(struct moietyi_call *call,
                                const struct moietyi_block_record *record)
{
    struct moietyi_checked *checked = call->pool->body->checked;
    moiety_stream stream = record->allocated.stream;
    if (!may_query(call, stream) ||
        checked->body->driver->cuStreamQuery(stream) != CUDA_ERROR_NOT_READY)
        return;
    pthread_mutex_lock(&checked->lock);
    checked->counts.busy_when_done++;
    pthread_mutex_unlock(&checked->lock);
}

void moietyi_checked_forget(struct moietyi_call *call, moiety_stream stream)
{
    struct moietyi_checked *checked = call->pool->body->checked;
    pthread_mutex_lock(&checked->lock);
    struct moietyi_stream_name **at = checked_stream_find(checked, stream);
    struct moietyi_stream_name *name = *at;
    if (name)
        *at = name->next;
    pthread_mutex_unlock(&checked->lock);
    free(name);
}

void moietyi_streams_clear(struct moietyi_checked *checked)
{
    for (unsigned i = 0; i < MOIETYI_STREAM_BUCKETS; i++) {
        while (checked->streams[i]) {
            struct moietyi_stream_name *name = checked->streams[i];
            checked->streams[i] = name->next;
            free(name);
        }
    }
}
