/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Regions and leases. Each change is in the vault before it shows here, and the
 * order of its steps is such that a keeper which starts again after any of them
 * finds the old state or the new one.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "moiety/region.h"
#include "pool/base/failure.h"
#include "serve/keeper/keeper.h"

/* Room of the closer that stays for what clients send. */
#define CLOSER_SPARE ((size_t)2 * MOIETYI_SERVE_DESCRIPTORS_MOST)
/* Memory and leases leave descriptors for clients, who drop and list regions; memory
 * leaves some for leases. In eighths of all. */
#define MEMORY_EIGHTHS 6
#define HOLD_EIGHTHS 7
/* A region without memory costs the keeper up to 64 KiB, and its maker nothing. */
#define REGIONS_MOST 1024U

struct moietyi_kept *moietyi_kept_find(const struct moietyi_keeper *keeper,
                                       const char *name)
{
    struct moietyi_kept *kept = keeper->regions;
    while (kept && (kept->value.state == MOIETY_REGION_DROPPED ||
                    strcmp(kept->value.name, name) != 0))
        kept = kept->next;
    return kept;
}

static struct moietyi_kept *kept_numbered(const struct moietyi_keeper *keeper,
                                          uint64_t number)
{
    struct moietyi_kept *kept = keeper->regions;
    while (kept && kept->value.number != number)
        kept = kept->next;
    return kept;
}

struct moietyi_memory *moietyi_kept_memory(const struct moietyi_kept *kept,
                                           uint32_t part, uint32_t index)
{
    size_t at = index;
    for (uint32_t i = 0; i < part; i++)
        at += moietyi_serve_handle_count(&kept->value.parts[i]);
    return &kept->memory[at];
}

struct moietyi_hold *moietyi_hold_find(const struct moietyi_keeper *keeper,
                                       const struct moietyi_client *client,
                                       const uint8_t *token)
{
    struct moietyi_hold *hold = keeper->holds;
    while (hold && (hold->pid != client->pid ||
                    memcmp(hold->token, token, sizeof(hold->token)) != 0))
        hold = hold->next;
    return hold;
}

struct moietyi_hold *moietyi_kept_writer(const struct moietyi_keeper *keeper,
                                         const struct moietyi_kept *kept)
{
    struct moietyi_hold *hold = keeper->holds;
    if (kept->value.state != MOIETY_REGION_WRITING)
        return NULL;
    while (hold && (hold->region != kept || !hold->is_writer))
        hold = hold->next;
    return hold;
}

/* Room for a region, at the end of the list. NULL: no memory. */
static struct moietyi_kept *region_add(struct moietyi_keeper *keeper,
                                       const struct moietyi_serve_region *value)
{
    struct moietyi_kept *kept = calloc(1, sizeof(*kept));
    struct moietyi_kept **end = &keeper->regions;
    if (!kept)
        return NULL;
    kept->value = *value;
    kept->layout.descriptor = -1;
    for (uint32_t i = 0; i < value->part_count; i++) {
        kept->handle_count += moietyi_serve_handle_count(&value->parts[i]);
        kept->size_bytes += value->parts[i].size_bytes;
    }
    kept->memory = calloc(kept->handle_count, sizeof(*kept->memory));
    if (!kept->memory) {
        free(kept);
        return NULL;
    }
    for (size_t i = 0; i < kept->handle_count; i++)
        kept->memory[i].descriptor = -1;
    while (*end)
        end = &(*end)->next;
    *end = kept;
    keeper->used_bytes += kept->size_bytes;
    return kept;
}

static void kept_remove(struct moietyi_keeper *keeper,
                        struct moietyi_kept *kept)
{
    struct moietyi_kept **at = &keeper->regions;
    while (*at != kept)
        at = &(*at)->next;
    *at = kept->next;
    keeper->used_bytes -= kept->size_bytes;
    free(kept->memory);
    free(kept);
}

static struct moietyi_hold *hold_add(struct moietyi_keeper *keeper,
                                     struct moietyi_kept *kept,
                                     const struct moietyi_record *record,
                                     int pidfd)
{
    struct moietyi_hold *hold = calloc(1, sizeof(*hold));
    if (!hold)
        return NULL;
    hold->kind = MOIETYI_SOURCE_HOLD;
    hold->pidfd = pidfd;
    hold->pid = (pid_t)record->pid;
    hold->number = record->number;
    memcpy(hold->token, record->token, sizeof(hold->token));
    hold->is_writer = record->is_writer != 0;
    hold->region = kept;
    if (!moietyi_keeper_watch(keeper, pidfd, hold)) {
        free(hold);
        return NULL;
    }
    hold->next = keeper->holds;
    keeper->holds = hold;
    kept->hold_count++;
    return hold;
}

moiety_status moietyi_kept_store(struct moietyi_keeper *keeper,
                                 struct moietyi_kept *kept,
                                 const struct moietyi_serve_region *value)
{
    const struct moietyi_record record = {.number = value->number,
                                          .region = value->number,
                                          .kind = MOIETYI_RECORD_REGION,
                                          .value = *value};
    moiety_status status = moietyi_vault_put(keeper->vault, &record, -1);
    if (status == MOIETY_OK)
        kept->value = *value;
    return status;
}

/* The kernel gives out the lowest number that is free. */
static moiety_status check_room(const struct moietyi_keeper *keeper,
                                int descriptor, int eighths)
{
    if (descriptor < keeper->descriptors / 8 * eighths)
        return MOIETY_OK;
    return moietyi_fail(MOIETY_E_NO_HOST_MEMORY,
                        "the keeper has %d descriptors, and keeps the last of "
                        "them free",
                        keeper->descriptors);
}

static bool has_most_regions(const struct moietyi_keeper *keeper)
{
    unsigned count = 0;
    for (const struct moietyi_kept *kept = keeper->regions; kept;
         kept = kept->next)
        count++;
    return count >= REGIONS_MOST;
}

moiety_status moietyi_kept_create(struct moietyi_keeper *keeper,
                                  const struct moietyi_serve_region *wanted,
                                  struct moietyi_kept **out)
{
    struct moietyi_serve_region value = *wanted;
    uint64_t size_bytes;
    uint64_t limit = keeper->options.limit_bytes;
    moiety_status status = moietyi_serve_check_parts(wanted, &size_bytes);
    if (status != MOIETY_OK)
        return status;
    if (keeper->is_draining)
        return moietyi_fail(MOIETY_E_BUDGET,
                            "the keeper is drained, and takes no regions");
    if (limit &&
        (size_bytes > limit || keeper->used_bytes > limit - size_bytes)) {
        return moietyi_fail(MOIETY_E_BUDGET,
                            "%llu bytes are wanted, and %llu of the keeper's "
                            "%llu are used",
                            (unsigned long long)size_bytes,
                            (unsigned long long)keeper->used_bytes,
                            (unsigned long long)limit);
    }
    if (has_most_regions(keeper))
        return moietyi_fail(MOIETY_E_BUDGET,
                            "the keeper has %u regions, and takes no more",
                            REGIONS_MOST);
    value.number = keeper->last_number + 1;
    value.generation = 0;
    value.layout_bytes = 0;
    value.state = MOIETY_REGION_WRITING;
    value.hold_count = 0;
    value.writer_pid = 0;
    struct moietyi_kept *kept = region_add(keeper, &value);
    if (!kept)
        return moietyi_fail(MOIETY_E_NO_HOST_MEMORY,
                            "the keeper has no memory left");
    status = moietyi_kept_store(keeper, kept, &value);
    if (status != MOIETY_OK) {
        kept_remove(keeper, kept);
        return status;
    }
    keeper->last_number++;
    *out = kept;
    return MOIETY_OK;
}

moiety_status moietyi_hold_create(struct moietyi_keeper *keeper,
                                  struct moietyi_kept *kept,
                                  struct moietyi_client *client,
                                  const uint8_t *token, bool is_writer)
{
    struct moietyi_record record = {.number = keeper->last_number + 1,
                                    .region = kept->value.number,
                                    .kind = MOIETYI_RECORD_HOLD,
                                    .pid = (uint32_t)client->pid,
                                    .is_writer = is_writer};
    memcpy(record.token, token, sizeof(record.token));
    int pidfd = dup(client->pidfd);
    if (pidfd < 0)
        return moietyi_fail(MOIETY_E_NO_HOST_MEMORY,
                            "the keeper has no descriptors left");
    moiety_status status = check_room(keeper, pidfd, HOLD_EIGHTHS);
    struct moietyi_hold *hold =
        status == MOIETY_OK ? hold_add(keeper, kept, &record, pidfd) : NULL;
    if (!hold) {
        (void)close(pidfd);
        return status != MOIETY_OK
                   ? status
                   : moietyi_fail(MOIETY_E_NO_HOST_MEMORY,
                                  "the keeper has no memory left");
    }
    hold->client = client;
    status = moietyi_vault_put(keeper->vault, &record, pidfd);
    if (status == MOIETY_OK) {
        keeper->last_number++;
        return MOIETY_OK;
    }
    keeper->holds = hold->next;
    kept->hold_count--;
    moietyi_keeper_unwatch(keeper, pidfd);
    (void)close(pidfd);
    free(hold);
    return status;
}

void moietyi_kept_drop(struct moietyi_keeper *keeper, struct moietyi_kept *kept)
{
    struct moietyi_serve_region value = kept->value;
    value.state = MOIETY_REGION_DROPPED;
    /* Without a vault there is no process that could read it back. */
    if (moietyi_kept_store(keeper, kept, &value) != MOIETY_OK)
        kept->value.state = MOIETY_REGION_DROPPED;
}

void moietyi_hold_end(struct moietyi_keeper *keeper, struct moietyi_hold *hold)
{
    struct moietyi_hold **at = &keeper->holds;
    struct moietyi_kept *kept = hold->region;
    if (moietyi_kept_writer(keeper, kept) == hold)
        moietyi_kept_drop(keeper, kept);
    moietyi_vault_drop(keeper->vault, hold->number);
    while (*at != hold)
        at = &(*at)->next;
    *at = hold->next;
    kept->hold_count--;
    moietyi_keeper_unwatch(keeper, hold->pidfd);
    (void)close(hold->pidfd);
    free(hold);
}

moiety_status moietyi_memory_keep(struct moietyi_keeper *keeper,
                                  const struct moietyi_kept *kept,
                                  struct moietyi_memory *memory,
                                  struct moietyi_record *record, int descriptor)
{
    record->number = memory->number ? memory->number : keeper->last_number + 1;
    record->region = kept->value.number;
    /* A descriptor in the place of another one takes no room. */
    moiety_status status = memory->descriptor >= 0
                               ? MOIETY_OK
                               : check_room(keeper, descriptor, MEMORY_EIGHTHS);
    if (status == MOIETY_OK)
        status = moietyi_vault_put(keeper->vault, record, descriptor);
    if (status != MOIETY_OK)
        return status;
    if (!memory->number)
        memory->number = ++keeper->last_number;
    if (memory->descriptor >= 0)
        moietyi_closer_push(&keeper->closer, memory->descriptor, 0);
    memory->descriptor = descriptor;
    return MOIETY_OK;
}

uint64_t moietyi_keeper_drop_all(struct moietyi_keeper *keeper,
                                 bool takes_written)
{
    uint64_t count = 0;
    for (struct moietyi_kept *kept = keeper->regions; kept; kept = kept->next) {
        if (kept->value.state == MOIETY_REGION_DROPPED ||
            (kept->value.state == MOIETY_REGION_WRITING && !takes_written))
            continue;
        moietyi_kept_drop(keeper, kept);
        count++;
    }
    return count;
}

/* The vault closes its descriptors first, so that it never closes the last. */
static void kept_begin_end(struct moietyi_keeper *keeper,
                           struct moietyi_kept *kept)
{
    for (size_t i = 0; i < kept->handle_count; i++)
        if (kept->memory[i].number)
            moietyi_vault_drop(keeper->vault, kept->memory[i].number);
    if (kept->layout.number)
        moietyi_vault_drop(keeper->vault, kept->layout.number);
    if (kept->layout.descriptor >= 0)
        (void)close(kept->layout.descriptor);
    kept->layout.descriptor = -1;
    kept->is_ending = true;
}

/* Whether it is gone. */
static bool kept_end(struct moietyi_keeper *keeper, struct moietyi_kept *kept)
{
    if (!kept->is_ending)
        kept_begin_end(keeper, kept);
    while (kept->next_close < kept->handle_count &&
           moietyi_closer_room(&keeper->closer) > CLOSER_SPARE) {
        int descriptor = kept->memory[kept->next_close++].descriptor;
        if (descriptor < 0)
            continue;
        moietyi_closer_push(&keeper->closer, descriptor, kept->value.number);
        kept->closing_count++;
    }
    if (kept->next_close < kept->handle_count || kept->closing_count)
        return false;
    moietyi_vault_drop(keeper->vault, kept->value.number);
    kept_remove(keeper, kept);
    return true;
}

void moietyi_keeper_sweep(struct moietyi_keeper *keeper)
{
    uint64_t number;
    while (moietyi_closer_reap(&keeper->closer, &number)) {
        struct moietyi_kept *closed =
            number ? kept_numbered(keeper, number) : NULL;
        if (closed)
            closed->closing_count--;
    }
    struct moietyi_kept *kept = keeper->regions;
    while (kept) {
        struct moietyi_kept *next = kept->next;
        if (kept->value.state == MOIETY_REGION_DROPPED && !kept->hold_count)
            (void)kept_end(keeper, kept);
        kept = next;
    }
}

/* Puts a record of the vault where it belongs. False: there is no memory. */
static bool keeper_adopt(struct moietyi_keeper *keeper,
                         const struct moietyi_record *record, int descriptor)
{
    if (record->kind == MOIETYI_RECORD_REGION)
        return region_add(keeper, &record->value) != NULL;
    struct moietyi_kept *kept = kept_numbered(keeper, record->region);
    if (!kept) {
        moietyi_vault_drop(keeper->vault, record->number);
        if (descriptor >= 0)
            moietyi_closer_push(&keeper->closer, descriptor, 0);
        return true;
    }
    if (record->kind == MOIETYI_RECORD_HOLD)
        return hold_add(keeper, kept, record, descriptor) != NULL;
    struct moietyi_memory *memory = &kept->layout;
    if (record->kind == MOIETYI_RECORD_MEMORY)
        memory = moietyi_kept_memory(kept, record->part, record->index);
    *memory = (struct moietyi_memory){record->number, descriptor};
    return true;
}

/* A region whose create ended before its lease was there has no writer. */
static void drop_writerless(struct moietyi_keeper *keeper)
{
    for (struct moietyi_kept *kept = keeper->regions; kept; kept = kept->next)
        if (kept->value.state == MOIETY_REGION_WRITING &&
            !moietyi_kept_writer(keeper, kept))
            moietyi_kept_drop(keeper, kept);
}

moiety_status moietyi_keeper_restore(struct moietyi_keeper *keeper)
{
    struct moietyi_record record = {.number = 0};
    int descriptor;
    for (;;) {
        moiety_status status = moietyi_vault_next(keeper->vault, record.number,
                                                  &record, &descriptor);
        if (status == MOIETY_E_STALE)
            break;
        if (status != MOIETY_OK)
            return status;
        if (keeper_adopt(keeper, &record, descriptor))
            continue;
        return moietyi_fail(MOIETY_E_NO_HOST_MEMORY,
                            "the keeper has no memory for its records");
    }
    keeper->last_number = record.number;
    drop_writerless(keeper);
    moietyi_keeper_sweep(keeper);
    return MOIETY_OK;
}
