/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * One function for each kind of request. A client that lost its keeper sends its
 * last request again, so a request that was done already is done without harm:
 * the client's token says that it is the same one.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "moiety/region.h"
#include "pool/base/failure.h"
#include "serve/keeper/keeper.h"

/* Of /dev/nvidiactl, whose files the driver's shared memory is: Linux has it in
 * its list of devices. */
#define NVIDIA_MAJOR 195U
#define LAYOUT_SEALS (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

struct request {
    struct moietyi_keeper *keeper;
    struct moietyi_client *client;
    struct moietyi_serve_received *received;
    struct moietyi_serve_frame reply;
    struct moietyi_lent *lent;
};

typedef moiety_status request_fn(struct request *request);

static moiety_status refuse_writing(const struct request *request,
                                    const struct moietyi_kept *kept)
{
    const struct moietyi_hold *writer =
        moietyi_kept_writer(request->keeper, kept);
    return moietyi_fail(MOIETY_E_IN_USE, "process %d writes region \"%s\"",
                        writer ? (int)writer->pid : 0, kept->value.name);
}

/* The description of a region for clients. */
static void describe_kept(const struct moietyi_keeper *keeper,
                          const struct moietyi_kept *kept,
                          struct moietyi_serve_region *out)
{
    const struct moietyi_hold *writer = moietyi_kept_writer(keeper, kept);
    *out = kept->value;
    out->hold_count = kept->hold_count;
    out->writer_pid = writer ? (uint32_t)writer->pid : 0;
    if (writer && !writer->client)
        out->state = MOIETY_REGION_FENCED;
}

/* The request's lease; NULL, with a message: this process has no such lease. */
static struct moietyi_hold *request_hold(const struct request *request)
{
    struct moietyi_hold *hold = moietyi_hold_find(
        request->keeper, request->client, request->received->frame.token);
    if (hold)
        hold->client = request->client;
    else
        (void)moietyi_fail(MOIETY_E_STALE,
                           "this process has no such lease of a region");
    return hold;
}

static moiety_status refuse_dropped(const struct moietyi_hold *hold)
{
    return moietyi_fail(MOIETY_E_STALE, "region \"%s\" was dropped",
                        hold->region->value.name);
}

static moiety_status check_writer(const struct request *request,
                                  const struct moietyi_hold *hold)
{
    if (moietyi_kept_writer(request->keeper, hold->region) == hold)
        return MOIETY_OK;
    if (hold->region->value.state == MOIETY_REGION_DROPPED)
        return refuse_dropped(hold);
    return moietyi_fail(MOIETY_E_INVALID,
                        "region \"%s\" is not written by this lease",
                        hold->region->value.name);
}

static moiety_status refuse_token(void)
{
    return moietyi_fail(MOIETY_E_INVALID, "the token is that of another lease");
}

static moiety_status answer_hello(struct request *request)
{
    (void)request;
    return MOIETY_OK;
}

static moiety_status answer_create(struct request *request)
{
    const struct moietyi_serve_frame *frame = &request->received->frame;
    struct moietyi_keeper *keeper = request->keeper;
    struct moietyi_hold *hold =
        moietyi_hold_find(keeper, request->client, frame->token);
    moiety_status status = moietyi_serve_check_name(frame->region.name);
    if (status != MOIETY_OK)
        return status;
    struct moietyi_kept *kept = moietyi_kept_find(keeper, frame->region.name);
    if (hold && hold->region == kept) {
        hold->client = request->client;
        return MOIETY_OK; /* asked again */
    }
    if (hold)
        return hold->region->value.state == MOIETY_REGION_DROPPED
                   ? refuse_dropped(hold)
                   : refuse_token();
    if (kept && kept->value.state == MOIETY_REGION_WRITING)
        return refuse_writing(request, kept);
    if (kept)
        return moietyi_fail(MOIETY_E_IN_USE, "there is a region \"%s\" already",
                            kept->value.name);
    status = moietyi_kept_create(keeper, &frame->region, &kept);
    if (status != MOIETY_OK)
        return status;
    status =
        moietyi_hold_create(keeper, kept, request->client, frame->token, true);
    if (status != MOIETY_OK)
        moietyi_kept_drop(keeper, kept);
    return status;
}

/* The keeper must be able to close what it keeps, so files of other drivers and
 * file systems are refused. */
static moiety_status check_memory(const struct moietyi_keeper *keeper,
                                  int descriptor)
{
    struct stat status;
    if (fstat(descriptor, &status) == 0) {
        if (S_ISCHR(status.st_mode) && major(status.st_rdev) == NVIDIA_MAJOR)
            return MOIETY_OK;
        if (keeper->options.accepts_memfd && S_ISREG(status.st_mode) &&
            fcntl(descriptor, F_GET_SEALS) >= 0)
            return MOIETY_OK;
    }
    return moietyi_fail(MOIETY_E_INVALID,
                        "a descriptor is no memory of an NVIDIA device");
}

static moiety_status check_handles(const struct moietyi_kept *kept,
                                   uint32_t part, uint32_t first, size_t count)
{
    if (part < kept->value.part_count && count &&
        first + count <= moietyi_serve_handle_count(&kept->value.parts[part]))
        return MOIETY_OK;
    return moietyi_fail(
        MOIETY_E_INVALID, "region \"%s\" has no handles %u to %zu of part %u",
        kept->value.name, (unsigned)first, first + count, (unsigned)part);
}

static moiety_status answer_put(struct request *request)
{
    struct moietyi_serve_received *received = request->received;
    const struct moietyi_serve_frame *frame = &received->frame;
    const struct moietyi_hold *hold = request_hold(request);
    if (!hold)
        return MOIETY_E_STALE;
    moiety_status status = check_writer(request, hold);
    if (status == MOIETY_OK)
        status = check_handles(hold->region, frame->part, frame->first,
                               received->count);
    if (status == MOIETY_OK && hold->region->value.generation)
        status = moietyi_fail(MOIETY_E_INVALID,
                              "the memory of a committed region stays");
    for (size_t i = 0; i < received->count && status == MOIETY_OK; i++)
        status = check_memory(request->keeper, received->descriptors[i]);
    if (status != MOIETY_OK)
        return status;
    struct moietyi_memory *memory =
        moietyi_kept_memory(hold->region, frame->part, frame->first);
    size_t kept_count = 0;
    while (kept_count < received->count && status == MOIETY_OK) {
        struct moietyi_record record = {.kind = MOIETYI_RECORD_MEMORY,
                                        .part = frame->part,
                                        .index = frame->first +
                                                 (uint32_t)kept_count};
        status = moietyi_memory_keep(request->keeper, hold->region,
                                     &memory[kept_count], &record,
                                     received->descriptors[kept_count]);
        kept_count += status == MOIETY_OK;
    }
    received->count -= kept_count;
    memmove(received->descriptors, &received->descriptors[kept_count],
            received->count * sizeof(received->descriptors[0]));
    return status;
}

/* A file that nobody can change or cut any more, and that blocks nobody. */
static moiety_status check_layout(int descriptor, uint64_t *out_bytes)
{
    struct stat status;
    int seals = fcntl(descriptor, F_GET_SEALS);
    if (seals >= 0 && (seals & LAYOUT_SEALS) == LAYOUT_SEALS &&
        fstat(descriptor, &status) == 0 &&
        (uint64_t)status.st_size <= MOIETYI_SERVE_LAYOUT_BYTES) {
        *out_bytes = (uint64_t)status.st_size;
        return MOIETY_OK;
    }
    return moietyi_fail(MOIETY_E_INVALID,
                        "a layout is a sealed memfd of at most 1 MiB");
}

static moiety_status keep_layout(struct request *request,
                                 struct moietyi_kept *kept, uint64_t *out_bytes)
{
    struct moietyi_serve_received *received = request->received;
    struct moietyi_record record = {.kind = MOIETYI_RECORD_LAYOUT};
    *out_bytes = 0;
    if (!received->count)
        return MOIETY_OK;
    moiety_status status =
        received->count == 1
            ? check_layout(received->descriptors[0], out_bytes)
            : moietyi_fail(MOIETY_E_INVALID, "a commit has one layout");
    if (status == MOIETY_OK)
        status = moietyi_memory_keep(request->keeper, kept, &kept->layout,
                                     &record, received->descriptors[0]);
    if (status == MOIETY_OK)
        received->count = 0;
    return status;
}

static moiety_status answer_commit(struct request *request)
{
    const struct moietyi_hold *hold = request_hold(request);
    uint64_t layout_bytes;
    if (!hold)
        return MOIETY_E_STALE;
    struct moietyi_kept *kept = hold->region;
    struct moietyi_serve_region value = kept->value;
    if (value.state == MOIETY_REGION_COMMITTED &&
        value.generation == request->received->frame.region.generation)
        return MOIETY_OK; /* asked again */
    moiety_status status = check_writer(request, hold);
    if (status != MOIETY_OK)
        return status;
    for (size_t i = 0; i < kept->handle_count; i++) {
        if (kept->memory[i].descriptor < 0)
            return moietyi_fail(MOIETY_E_INVALID,
                                "region \"%s\" lacks handle %zu", value.name,
                                i);
    }
    status = keep_layout(request, kept, &layout_bytes);
    if (status != MOIETY_OK)
        return status;
    value.layout_bytes = layout_bytes;
    value.generation++;
    value.state = MOIETY_REGION_COMMITTED;
    kept->has_report = false;
    return moietyi_kept_store(request->keeper, kept, &value);
}

/* Nobody else may hold the region; then it is written from now on. */
static moiety_status begin_write(struct request *request,
                                 struct moietyi_kept *kept)
{
    struct moietyi_serve_region value = kept->value;
    if (value.state == MOIETY_REGION_WRITING)
        return MOIETY_OK; /* asked again */
    value.state = MOIETY_REGION_WRITING;
    return moietyi_kept_store(request->keeper, kept, &value);
}

static moiety_status answer_open(struct request *request)
{
    const struct moietyi_serve_frame *frame = &request->received->frame;
    struct moietyi_keeper *keeper = request->keeper;
    moiety_status status = moietyi_serve_check_name(frame->region.name);
    if (status != MOIETY_OK)
        return status;
    struct moietyi_kept *kept = moietyi_kept_find(keeper, frame->region.name);
    if (!kept)
        return moietyi_fail(MOIETY_E_STALE, "there is no region \"%s\"",
                            frame->region.name);
    struct moietyi_hold *hold =
        moietyi_hold_find(keeper, request->client, frame->token);
    bool is_again = hold && hold->region == kept;
    if (hold && (!is_again || hold->is_writer != (frame->is_writer != 0)))
        return refuse_token();
    if (kept->value.state == MOIETY_REGION_WRITING && !is_again)
        return refuse_writing(request, kept);
    if (kept->value.state == MOIETY_REGION_QUARANTINED) {
        return moietyi_fail(MOIETY_E_CORRUPT,
                            "two processes could not map region \"%s\"; it can "
                            "only be dropped",
                            kept->value.name);
    }
    if (frame->is_writer && kept->hold_count > (is_again ? 1U : 0U)) {
        return moietyi_fail(MOIETY_E_IN_USE,
                            "region \"%s\" is open %u times; it is written by "
                            "one process alone",
                            kept->value.name, (unsigned)kept->hold_count);
    }
    if (is_again)
        hold->client = request->client;
    else
        status = moietyi_hold_create(keeper, kept, request->client,
                                     frame->token, frame->is_writer != 0);
    if (status == MOIETY_OK && frame->is_writer)
        status = begin_write(request, kept);
    if (status == MOIETY_OK)
        describe_kept(keeper, kept, &request->reply.region);
    return status;
}

static moiety_status answer_fetch(struct request *request)
{
    const struct moietyi_serve_frame *frame = &request->received->frame;
    struct moietyi_hold *hold = request_hold(request);
    if (!hold)
        return MOIETY_E_STALE;
    moiety_status status =
        check_handles(hold->region, frame->part, frame->first, 1);
    if (status != MOIETY_OK)
        return status;
    hold->has_fetched = true;
    const struct moietyi_kept *kept = hold->region;
    const struct moietyi_memory *memory =
        moietyi_kept_memory(kept, frame->part, frame->first);
    size_t left = moietyi_serve_handle_count(&kept->value.parts[frame->part]) -
                  frame->first;
    for (size_t i = 0; i < left && i < MOIETYI_SERVE_DESCRIPTORS; i++) {
        if (memory[i].descriptor < 0)
            return moietyi_fail(MOIETY_E_INVALID, "region \"%s\" lacks handles",
                                kept->value.name);
        request->lent->descriptors[request->lent->count++] =
            memory[i].descriptor;
    }
    return MOIETY_OK;
}

static moiety_status answer_fetch_layout(struct request *request)
{
    const struct moietyi_hold *hold = request_hold(request);
    if (!hold)
        return MOIETY_E_STALE;
    if (!hold->region->value.layout_bytes)
        return MOIETY_OK;
    request->lent->descriptors[request->lent->count++] =
        hold->region->layout.descriptor;
    return MOIETY_OK;
}

/* A writer that could not map the region wrote nothing: it is as it was. */
static moiety_status give_up_write(struct request *request,
                                   struct moietyi_hold *hold)
{
    struct moietyi_serve_region value = hold->region->value;
    if (moietyi_kept_writer(request->keeper, hold->region) != hold ||
        !value.generation)
        return MOIETY_OK;
    value.state = MOIETY_REGION_COMMITTED;
    return moietyi_kept_store(request->keeper, hold->region, &value);
}

static moiety_status answer_close(struct request *request)
{
    const struct moietyi_serve_frame *frame = &request->received->frame;
    struct moietyi_hold *hold =
        moietyi_hold_find(request->keeper, request->client, frame->token);
    if (!hold)
        return MOIETY_OK;
    moiety_status status =
        frame->is_writer ? give_up_write(request, hold) : MOIETY_OK;
    if (status != MOIETY_OK)
        return status;
    /* It could use the memory, so an earlier report was a process's own fault. */
    if (hold->has_fetched && !hold->has_reported)
        hold->region->has_report = false;
    moietyi_hold_end(request->keeper, hold);
    return MOIETY_OK;
}

static moiety_status answer_drop(struct request *request)
{
    const char *name = request->received->frame.region.name;
    moiety_status status = moietyi_serve_check_name(name);
    struct moietyi_kept *kept =
        status == MOIETY_OK ? moietyi_kept_find(request->keeper, name) : NULL;
    if (status != MOIETY_OK)
        return status;
    if (!kept)
        return moietyi_fail(MOIETY_E_STALE, "there is no region \"%s\"", name);
    if (kept->value.state == MOIETY_REGION_WRITING)
        return refuse_writing(request, kept);
    moietyi_kept_drop(request->keeper, kept);
    return MOIETY_OK;
}

static moiety_status answer_drain(struct request *request)
{
    request->reply.cursor = moietyi_keeper_drop_all(request->keeper, false);
    return MOIETY_OK;
}

/* The fault may be one process's own; two are believed, if none could use the region
 * between them. The keeper forgets the first one if this process is restarted. */
static moiety_status answer_report(struct request *request)
{
    struct moietyi_hold *hold = request_hold(request);
    if (!hold)
        return MOIETY_E_STALE;
    struct moietyi_kept *kept = hold->region;
    struct moietyi_serve_region value = kept->value;
    if (!value.generation || value.state == MOIETY_REGION_DROPPED ||
        value.state == MOIETY_REGION_QUARANTINED)
        return MOIETY_OK;
    hold->has_reported = true;
    if (!kept->has_report || kept->reporter == hold->pid) {
        kept->has_report = true;
        kept->reporter = hold->pid;
        return MOIETY_OK;
    }
    value.state = MOIETY_REGION_QUARANTINED;
    return moietyi_kept_store(request->keeper, kept, &value);
}

/* The processes that hold it, each once. */
static void describe_holders(const struct moietyi_keeper *keeper,
                             const struct moietyi_kept *kept, uint32_t *out)
{
    uint32_t count = 0;
    for (const struct moietyi_hold *hold = keeper->holds;
         hold && count < MOIETYI_SERVE_PIDS; hold = hold->next) {
        uint32_t i = 0;
        if (hold->region != kept)
            continue;
        while (i < count && out[i] != (uint32_t)hold->pid)
            i++;
        /* 0: of a pid namespace that this process cannot see. */
        if (i == count && hold->pid > 0)
            out[count++] = (uint32_t)hold->pid;
    }
}

static moiety_status answer_list(struct request *request)
{
    const struct moietyi_kept *kept = request->keeper->regions;
    while (kept && kept->value.number <= request->received->frame.cursor)
        kept = kept->next;
    if (kept) {
        describe_kept(request->keeper, kept, &request->reply.region);
        describe_holders(request->keeper, kept, request->reply.hold_pids);
    }
    return MOIETY_OK;
}

void moietyi_keeper_answer(struct moietyi_keeper *keeper,
                           struct moietyi_client *client,
                           struct moietyi_serve_received *received,
                           struct moietyi_lent *out)
{
    static request_fn *const all[MOIETYI_SERVE_KIND_END] = {
        [MOIETYI_SERVE_HELLO] = answer_hello,
        [MOIETYI_SERVE_CREATE] = answer_create,
        [MOIETYI_SERVE_PUT] = answer_put,
        [MOIETYI_SERVE_COMMIT] = answer_commit,
        [MOIETYI_SERVE_OPEN] = answer_open,
        [MOIETYI_SERVE_FETCH] = answer_fetch,
        [MOIETYI_SERVE_FETCH_LAYOUT] = answer_fetch_layout,
        [MOIETYI_SERVE_CLOSE] = answer_close,
        [MOIETYI_SERVE_DROP] = answer_drop,
        [MOIETYI_SERVE_DRAIN] = answer_drain,
        [MOIETYI_SERVE_LIST] = answer_list,
        [MOIETYI_SERVE_REPORT] = answer_report};
    struct request request = {.keeper = keeper,
                              .client = client,
                              .received = received,
                              .reply = {.kind = received->frame.kind,
                                        .sequence = received->frame.sequence},
                              .lent = out};
    out->count = 0;
    moiety_status status = all[received->frame.kind](&request);
    request.reply.status = (int32_t)status;
    if (status != MOIETY_OK) {
        out->count = 0;
        (void)snprintf(request.reply.message, sizeof(request.reply.message),
                       "%.*s", (int)MOIETYI_SERVE_MESSAGE_BYTES - 1,
                       moietyi_failure_message());
    }
    received->frame = request.reply;
}
