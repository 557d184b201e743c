/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Each tensor of a request is filled at its end with words of its own, and its
 * head is copied from the tensor before: a model's layers, as far as memory can
 * tell. The ends are sampled right before a tensor is freed, so that whoever
 * else was given the memory meanwhile is seen in the response; the heads show
 * the same of the time until the next tensor had its own. All of it is queued
 * before the first wait, and all frees are, too, that are not another thread's.
 *
 * The input comes in parts, as from a client, and each goes through a buffer of
 * its own that is let go of before its copy has begun. A part that got the
 * first one's buffer too early would spoil the input's head.
 */
#include "bench/server/service.h"

#include <string.h>

#include "bench/base/clock.h"

/* What is filled, at most: on the stand-in the processors do a GPU's work, and
 * only they. */
#define FILL_BYTES_MAX ((size_t)64 << 10)

#define INPUT_PARTS ((size_t)4)

/* NOLINTNEXTLINE(misc-redundant-expression): they are equal today. */
_Static_assert(SERVER_TENSOR_BYTES_MAX <= SERVER_BLOCK_BYTES_MAX &&
                   SERVER_RESPONSE_BYTES <= SERVER_BLOCK_BYTES_MAX,
               "subjects have blocks as large as requests ask for");

struct service {
    struct server_worker *worker;
    const struct server_request *request;
    const struct moietyi_driver *driver;
    CUstream stream;
    unsigned sample_count; /* that are queued for the response */
    void *arrived;         /* the response, when the device is done */
    struct server_block input, response;
    struct server_block tensors[SERVER_TENSORS_MAX];
};

static moiety_status first_failure(moiety_status one, moiety_status other)
{
    return one != MOIETY_OK ? one : other;
}

/* Counts what a call of the subject took. */
static void note_call(struct server_worker *worker, struct histogram *calls,
                      uint64_t start_ns)
{
    uint64_t spent_ns = clock_now_ns() - start_ns;
    uint64_t clock_ns = worker->server->clock_ns;
    spent_ns -= spent_ns < clock_ns ? spent_ns : clock_ns;
    worker->counts.alloc_ns += spent_ns;
    histogram_add(calls, spent_ns * 1000);
}

static moiety_status take(struct server_worker *worker, size_t size_bytes,
                          struct server_block *out)
{
    const struct server_subject *subject = worker->server->subject;
    CUdeviceptr address = 0;
    uint64_t start_ns = clock_now_ns();
    moiety_status status = subject->alloc(size_bytes, worker->index, &address);
    note_call(worker, &worker->calls.allocs, start_ns);
    if (status == MOIETY_OK) {
        worker->counts.allocs++;
        *out = (struct server_block){address, size_bytes, worker->index};
    }
    return status;
}

/* Does nothing for no block. */
static moiety_status give(struct server_worker *worker,
                          struct server_block *block)
{
    const struct server_subject *subject = worker->server->subject;
    if (!block->address)
        return MOIETY_OK;
    uint64_t start_ns = clock_now_ns();
    moiety_status status =
        subject->free(block->address, block->size_bytes, block->stream);
    note_call(worker, &worker->calls.frees, start_ns);
    worker->counts.frees++;
    block->address = 0;
    return status;
}

/* False when it is full: the block stays the caller's. */
static bool post(struct server_mailbox *mailbox,
                 const struct server_block *block)
{
    (void)pthread_mutex_lock(&mailbox->lock);
    bool has_room = mailbox->count < SERVER_MAILBOX_BLOCKS;
    if (has_room)
        mailbox->blocks[mailbox->count++] = *block;
    (void)pthread_mutex_unlock(&mailbox->lock);
    return has_room;
}

/* Takes everything out, into room for SERVER_MAILBOX_BLOCKS. */
static unsigned collect(struct server_mailbox *mailbox,
                        struct server_block *out)
{
    (void)pthread_mutex_lock(&mailbox->lock);
    unsigned count = mailbox->count;
    memcpy(out, mailbox->blocks, count * sizeof(*out));
    mailbox->count = 0;
    (void)pthread_mutex_unlock(&mailbox->lock);
    return count;
}

/* Leaves a block to the next thread, or frees it if there is no other or its
 * mailbox is full. */
static moiety_status hand_over(struct server_worker *worker,
                               struct server_block *block)
{
    struct server *server = worker->server;
    unsigned next = (worker->index + 1) % server->worker_count;
    if (!block->address || next == worker->index ||
        !post(&server->workers[next].mailbox, block))
        return give(worker, block);
    worker->counts.handed_over++;
    block->address = 0;
    return MOIETY_OK;
}

moiety_status server_free_mail(struct server_worker *worker)
{
    struct server_block blocks[SERVER_MAILBOX_BLOCKS];
    unsigned count = collect(&worker->mailbox, blocks);
    moiety_status result = MOIETY_OK;
    for (unsigned i = 0; i < count; i++)
        result = first_failure(result, give(worker, &blocks[i]));
    return result;
}

/* Queues the copy of a part of a block into the response. */
static moiety_status sample(struct service *service, CUdeviceptr from)
{
    CUdeviceptr to = service->response.address +
                     service->sample_count++ * SERVER_SAMPLE_BYTES;
    return MOIETYI_CALL(service->driver, cuMemcpyDtoDAsync,
                        (to, from, SERVER_SAMPLE_BYTES, service->stream));
}

static moiety_status sample_tail(struct service *service,
                                 const struct server_block *block)
{
    return sample(service,
                  block->address + block->size_bytes - SERVER_SAMPLE_BYTES);
}

/* Parts are multiples of 16 bytes, as inputs are of 64. */
static moiety_status send_input(struct service *service)
{
    const struct server_request *request = service->request;
    const struct server *server = service->worker->server;
    const unsigned char *input = server->pattern + request->input_offset_bytes;
    size_t part_bytes = request->input_bytes / INPUT_PARTS;
    moiety_status status = MOIETY_OK;
    for (size_t i = 0; i < INPUT_PARTS && status == MOIETY_OK; i++)
        status = server_staging_send(
            server->staging, service->input.address + i * part_bytes,
            input + i * part_bytes, part_bytes, service->worker->index);
    return status;
}

static moiety_status stage_in(struct service *service)
{
    struct server_worker *worker = service->worker;
    moiety_status status =
        take(worker, SERVER_RESPONSE_BYTES, &service->response);
    if (status == MOIETY_OK)
        status = take(worker, service->request->input_bytes, &service->input);
    return status == MOIETY_OK ? send_input(service) : status;
}

/* The fill comes first: in a small tensor it reaches into the head. */
static moiety_status make_tensor(struct service *service, unsigned index,
                                 CUdeviceptr head)
{
    const struct server_request *request = service->request;
    struct server_block *tensor = &service->tensors[index];
    size_t size_bytes = request->tensors[index].size_bytes;
    size_t fill_bytes =
        size_bytes < FILL_BYTES_MAX ? size_bytes : FILL_BYTES_MAX;
    moiety_status status = take(service->worker, size_bytes, tensor);
    if (status == MOIETY_OK)
        status = MOIETYI_CALL(service->driver, cuMemsetD32Async,
                              (tensor->address + size_bytes - fill_bytes,
                               server_request_tag(request, index),
                               fill_bytes / sizeof(uint32_t), service->stream));
    if (status == MOIETY_OK)
        status = MOIETYI_CALL(
            service->driver, cuMemcpyDtoDAsync,
            (tensor->address, head, SERVER_SAMPLE_BYTES, service->stream));
    return status;
}

/* The input is done with when the first tensor is made, and a tensor that is
 * not kept when the next one is. */
static moiety_status run_model(struct service *service)
{
    const struct server_request *request = service->request;
    struct server_block *last = &service->input;
    bool is_kept = false;
    moiety_status status = MOIETY_OK;
    for (unsigned i = 0; i < request->tensor_count; i++) {
        status = make_tensor(service, i, last->address);
        if (status == MOIETY_OK && !is_kept)
            status = sample_tail(service, last);
        if (status == MOIETY_OK && !is_kept)
            status = give(service->worker, last);
        if (status != MOIETY_OK)
            return status;
        last = &service->tensors[i];
        is_kept = request->tensors[i].is_kept;
    }
    return sample(service, last->address);
}

/* Samples what is still live and copies the response out. */
static moiety_status stage_out(struct service *service)
{
    struct server_worker *worker = service->worker;
    moiety_status status = MOIETY_OK;
    for (unsigned i = 0;
         i < service->request->tensor_count && status == MOIETY_OK; i++)
        if (service->tensors[i].address)
            status = sample_tail(service, &service->tensors[i]);
    size_t size_bytes = service->sample_count * SERVER_SAMPLE_BYTES;
    if (status == MOIETY_OK)
        status = server_staging_expect(worker->server->staging, size_bytes,
                                       worker->index, &service->arrived);
    if (status == MOIETY_OK)
        status = MOIETYI_CALL(service->driver, cuMemcpyDtoHAsync,
                              (service->arrived, service->response.address,
                               size_bytes, service->stream));
    if (status == MOIETY_OK)
        status = MOIETYI_CALL(service->driver, cuEventRecord,
                              (worker->arrival, service->stream));
    return status;
}

/* Frees what is live, or leaves it to another thread; the work that uses it may
 * still be queued. */
static moiety_status let_go(struct service *service)
{
    struct server_worker *worker = service->worker;
    moiety_status (*end)(struct server_worker *, struct server_block *) =
        service->request->is_handed_over ? hand_over : give;
    moiety_status result = end(worker, &service->response);
    result = first_failure(result, end(worker, &service->input));
    for (unsigned i = 0; i < SERVER_TENSORS_MAX; i++)
        result = first_failure(result, end(worker, &service->tensors[i]));
    return result;
}

/* Counts the bytes that differ, at the next place of the response. */
static size_t count_wrong(const unsigned char **place, const void *expected)
{
    const unsigned char *wanted = expected;
    const unsigned char *found = *place;
    size_t wrong = 0;
    *place += SERVER_SAMPLE_BYTES;
    if (memcmp(found, wanted, SERVER_SAMPLE_BYTES) == 0)
        return 0;
    for (size_t i = 0; i < SERVER_SAMPLE_BYTES; i++)
        wrong += found[i] != wanted[i];
    return wrong;
}

static size_t count_wrong_tail(const unsigned char **place,
                               const struct server_request *request,
                               unsigned tensor)
{
    uint32_t expected[SERVER_SAMPLE_BYTES / sizeof(uint32_t)];
    for (size_t i = 0; i < sizeof(expected) / sizeof(*expected); i++)
        expected[i] = server_request_tag(request, tensor);
    return count_wrong(place, expected);
}

/* In the order in which the samples were taken. */
static void check(struct service *service)
{
    const struct server_request *request = service->request;
    struct server_worker *worker = service->worker;
    const unsigned char *input =
        worker->server->pattern + request->input_offset_bytes;
    const unsigned char *place = service->arrived;
    unsigned last = request->tensor_count - 1;
    size_t wrong =
        count_wrong(&place, input + request->input_bytes - SERVER_SAMPLE_BYTES);
    for (unsigned i = 0; i < last; i++)
        if (!request->tensors[i].is_kept)
            wrong += count_wrong_tail(&place, request, i);
    wrong += count_wrong(&place, input);
    for (unsigned i = 0; i <= last; i++)
        if (request->tensors[i].is_kept || i == last)
            wrong += count_wrong_tail(&place, request, i);
    worker->counts.wrong_bytes += wrong;
    worker->counts.checked_bytes += service->sample_count * SERVER_SAMPLE_BYTES;
}

moiety_status server_serve(struct server_worker *worker,
                           const struct server_request *request)
{
    const struct server_device *device = worker->server->device;
    struct service service = {
        .worker = worker,
        .request = request,
        .driver = device->driver,
        .stream = device->streams[worker->index],
    };
    moiety_status status = stage_in(&service);
    if (status == MOIETY_OK)
        status = run_model(&service);
    if (status == MOIETY_OK)
        status = stage_out(&service);
    status = first_failure(status, let_go(&service));
    if (status == MOIETY_OK)
        status =
            MOIETYI_CALL(device->driver, cuEventSynchronize, (worker->arrival));
    if (status == MOIETY_OK)
        check(&service);
    status = first_failure(
        status, server_staging_end(worker->server->staging, service.arrived,
                                   worker->index, status == MOIETY_OK));
    worker->counts.requests += status == MOIETY_OK;
    return status;
}
