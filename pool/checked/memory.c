/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Patterns in a block's memory. All but the fill of what was freed goes over a
 * stream of the pool's own and is waited for: nothing is pending on the memory
 * then, so that waits for nobody's work, and no stream of the program's nor
 * graph that it captures gets anything that it did not ask for.
 */
#include <stdlib.h>
#include <string.h>

#include "pool/checked/state.h"
#include "pool/driver/section.h"

/* Copied to the host at a time. */
#define CHUNK_BYTES ((size_t)256 << 10)

static moiety_devptr
checked_memory_end_of(const struct moietyi_block_record *record)
{
    return record->address + record->size_bytes;
}

static moiety_status set_bounds(const struct moietyi_checked *checked,
                                const struct moietyi_block_record *record)
{
    const struct moietyi_driver *driver = checked->body->driver;
    moiety_status status =
        MOIETYI_CALL(driver, cuMemsetD8Async,
                     (record->address - MOIETYI_BOUND_BYTES, MOIETYI_BOUND_BYTE,
                      MOIETYI_BOUND_BYTES, checked->stream));
    if (status == MOIETY_OK) {
        status =
            MOIETYI_CALL(driver, cuMemsetD8Async,
                         (checked_memory_end_of(record), MOIETYI_BOUND_BYTE,
                          MOIETYI_BOUND_BYTES, checked->stream));
    }
    if (status == MOIETY_OK &&
        checked->body->options.flags & MOIETY_POOL_CHECKED_FILL)
        status = MOIETYI_CALL(driver, cuMemsetD8Async,
                              (record->address, MOIETYI_FRESH_BYTE,
                               record->size_bytes, checked->stream));
    /* Also after a refusal: nothing stays under way. */
    moiety_status waited =
        MOIETYI_CALL(driver, cuStreamSynchronize, (checked->stream));
    return status == MOIETY_OK ? waited : status;
}

moiety_status
moietyi_block_record_bound(struct moietyi_checked *checked,
                           const struct moietyi_block_record *record)
{
    struct moietyi_section section;
    if (!checked->is_checked)
        return MOIETY_OK;
    moiety_status status =
        moietyi_context_enter(&checked->body->own_context, &section);
    if (status != MOIETY_OK)
        return status;
    status = set_bounds(checked, record);
    (void)moietyi_section_leave(&section);
    return status;
}

bool moietyi_block_record_fill(const struct moietyi_checked *checked,
                               const struct moietyi_block_record *record,
                               CUstream stream)
{
    return checked->body->driver->cuMemsetD8Async(
               record->address, MOIETYI_FREED_BYTE, record->size_bytes,
               stream) == CUDA_SUCCESS;
}

/* The finding in a range. */
struct wrong {
    uint64_t count;
    uint64_t first_offset; /* of the range */
    uint64_t last_offset;
    unsigned char first_byte;
};

static void checked_memory_compare(const unsigned char *bytes, size_t count,
                                   uint64_t offset, unsigned char expected,
                                   struct wrong *wrong)
{
    /* All alike, as nearly always. */
    if (bytes[0] == expected && !memcmp(bytes, bytes + 1, count - 1))
        return;
    for (size_t i = 0; i < count; i++) {
        if (bytes[i] == expected)
            continue;
        if (!wrong->count++) {
            wrong->first_offset = offset + i;
            wrong->first_byte = bytes[i];
        }
        wrong->last_offset = offset + i;
    }
}

/* Whether the whole range could be read. */
static bool look_at(const struct moietyi_checked *checked,
                    unsigned char *buffer, moiety_devptr address,
                    uint64_t size_bytes, unsigned char expected,
                    struct wrong *wrong)
{
    const struct moietyi_driver *driver = checked->body->driver;
    *wrong = (struct wrong){0};
    for (uint64_t offset = 0; offset < size_bytes; offset += CHUNK_BYTES) {
        uint64_t rest_bytes = size_bytes - offset;
        size_t bytes = rest_bytes < CHUNK_BYTES ? rest_bytes : CHUNK_BYTES;
        CUresult code = driver->cuMemcpyDtoHAsync(buffer, address + offset,
                                                  bytes, checked->stream);
        CUresult waited = driver->cuStreamSynchronize(checked->stream);
        if (code != CUDA_SUCCESS || waited != CUDA_SUCCESS)
            return false;
        checked_memory_compare(buffer, bytes, offset, expected, wrong);
    }
    return true;
}

static void report_bounds(struct moietyi_checked *checked,
                          const struct moietyi_block_record *record,
                          const struct wrong *before, const struct wrong *after)
{
    struct moietyi_text text = {0};
    if (!before->count && !after->count)
        return;
    pthread_mutex_lock(&checked->lock);
    checked->counts.writes_out_of_bounds++;
    pthread_mutex_unlock(&checked->lock);
    if (before->count) {
        moietyi_text_add(
            &text,
            "%llu bytes before the block were written, the last of them %llu "
            "before its beginning (0x%02x where 0x%02x was)",
            (unsigned long long)before->count,
            (unsigned long long)(MOIETYI_BOUND_BYTES - before->last_offset),
            before->first_byte, MOIETYI_BOUND_BYTE);
    }
    if (after->count) {
        moietyi_text_add(&text,
                         "%s%llu bytes after the block were written, the first "
                         "of them %llu past its end (0x%02x where 0x%02x was)",
                         before->count ? "; " : "",
                         (unsigned long long)after->count,
                         (unsigned long long)after->first_offset,
                         after->first_byte, MOIETYI_BOUND_BYTE);
    }
    moietyi_text_block(&text, record);
    moietyi_finding(checked, &text, record);
}

static void report_write(struct moietyi_checked *checked,
                         const struct moietyi_block_record *record,
                         const struct wrong *wrong)
{
    struct moietyi_text text = {0};
    if (!wrong->count)
        return;
    pthread_mutex_lock(&checked->lock);
    checked->counts.writes_after_free++;
    pthread_mutex_unlock(&checked->lock);
    moietyi_text_add(&text,
                     "%llu bytes of a freed block were written, the first at "
                     "offset %llu, the last at %llu (0x%02x where 0x%02x was)",
                     (unsigned long long)wrong->count,
                     (unsigned long long)wrong->first_offset,
                     (unsigned long long)wrong->last_offset, wrong->first_byte,
                     MOIETYI_FREED_BYTE);
    moietyi_text_block(&text, record);
    moietyi_finding(checked, &text, record);
}

void moietyi_block_record_look(struct moietyi_checked *checked,
                               const struct moietyi_block_record *record)
{
    struct wrong before = {0};
    struct wrong after = {0};
    struct wrong inside = {0};
    unsigned char *buffer = malloc(CHUNK_BYTES);
    bool is_whole =
        buffer &&
        look_at(checked, buffer, record->address - MOIETYI_BOUND_BYTES,
                MOIETYI_BOUND_BYTES, MOIETYI_BOUND_BYTE, &before) &&
        look_at(checked, buffer, checked_memory_end_of(record),
                MOIETYI_BOUND_BYTES, MOIETYI_BOUND_BYTE, &after) &&
        (!record->is_filled ||
         look_at(checked, buffer, record->address, record->size_bytes,
                 MOIETYI_FREED_BYTE, &inside));
    free(buffer);
    pthread_mutex_lock(&checked->lock);
    if (record->is_freed && is_whole && record->is_filled)
        checked->counts.verified_blocks++;
    else if (record->is_freed)
        checked->counts.unverified_blocks++;
    pthread_mutex_unlock(&checked->lock);
    report_bounds(checked, record, &before, &after);
    report_write(checked, record, &inside);
}
