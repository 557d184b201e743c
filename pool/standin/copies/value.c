/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Streams that wait for a value in memory, and that write one.
 */
#include "pool/standin/entries/engine_api.h"
#include "pool/standin/memory/memory.h"
#include "pool/standin/streams/engine_internal.h"

#define CONDITION_MASK 3U

static uint64_t value_load(const void *place, size_t size_bytes)
{
    /* SV.acquire: work behind the wait sees what was written before the value. */
    return size_bytes == 4
               ? __atomic_load_n((const uint32_t *)place, __ATOMIC_ACQUIRE)
               : __atomic_load_n((const uint64_t *)place, __ATOMIC_ACQUIRE);
}

/* SV.release: a thread that sees the value sees the stream's work before it. */
static void store(void *place, uint64_t operand, size_t size_bytes)
{
    if (size_bytes == 4)
        __atomic_store_n((uint32_t *)place, (uint32_t)operand,
                         __ATOMIC_RELEASE);
    else
        __atomic_store_n((uint64_t *)place, operand, __ATOMIC_RELEASE);
}

/* "Not before": the difference as a signed number of the value's width. */
static bool value_is_reached(uint64_t found, uint64_t operand,
                             size_t size_bytes)
{
    if (size_bytes == 4)
        return (int32_t)((uint32_t)found - (uint32_t)operand) >= 0;
    return (int64_t)(found - operand) >= 0;
}

static bool holds(const struct value *value, uint64_t found)
{
    uint64_t all = value->size_bytes == 4 ? UINT32_MAX : UINT64_MAX;
    switch (value->condition) {
    case CU_STREAM_WAIT_VALUE_GEQ:
        return value_is_reached(found, value->operand, value->size_bytes);
    case CU_STREAM_WAIT_VALUE_EQ:
        return found == value->operand;
    case CU_STREAM_WAIT_VALUE_AND:
        return (found & value->operand) != 0;
    default:
        return (~(found | value->operand) & all) != 0; /* NOR */
    }
}

static bool test(struct work *work, CUresult *out_code)
{
    const struct value *value = &work->as.value;
    unsigned char *place;
    *out_code = CUDA_SUCCESS;
    /* In a graph a worker asks, and its context may be going. */
    if (!value->context->engine)
        return true;
    if (memory_resolve(value->address, value->size_bytes, &place) ==
        CUDA_SUCCESS)
        return holds(value, value_load(place, value->size_bytes));
    *out_code = CUDA_ERROR_ILLEGAL_ADDRESS;
    return true;
}

static CUresult run_write(struct work *work)
{
    const struct value *value = &work->as.value;
    unsigned char *place;
    standin_lock();
    if (memory_resolve(value->address, value->size_bytes, &place) !=
        CUDA_SUCCESS)
        return standin_leave(CUDA_ERROR_ILLEGAL_ADDRESS);
    store(place, value->operand, value->size_bytes);
    watcher_look();
    return standin_leave(CUDA_SUCCESS);
}

static CUresult value_check(const struct value *value)
{
    unsigned char *place;
    if (!value->address || value->address % value->size_bytes ||
        memory_is_pageable(value->address))
        return CUDA_ERROR_INVALID_VALUE;
    return memory_resolve(value->address, value->size_bytes, &place);
}

static CUresult value_submit(bool is_per_thread, CUstream handle,
                             struct work *work)
{
    CUresult why;
    struct value *value = &work->as.value;
    if (value->size_bytes == 4)
        value->operand = (uint32_t)value->operand;
    if ((why = value_check(value)) != CUDA_SUCCESS)
        return why;
    struct CUstream_st *stream = launch_begin(handle, is_per_thread, &why);
    if (!stream)
        return why;
    value->context = stream->context;
    return launch(stream, work, NULL);
}

/* CU_STREAM_WAIT_VALUE_FLUSH needs a device attribute that this device, like
 * an H200, does not have. */
static CUresult await(bool is_per_thread, size_t size_bytes, CUstream stream,
                      CUdeviceptr address, uint64_t operand, unsigned flags)
{
    struct work work = {.test = test,
                        .node_type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP,
                        .as.value = {.address = address,
                                     .size_bytes = size_bytes,
                                     .operand = operand,
                                     .condition = flags & CONDITION_MASK}};
    if (flags & (unsigned)CU_STREAM_WAIT_VALUE_FLUSH)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (flags & ~CONDITION_MASK)
        return CUDA_ERROR_INVALID_VALUE;
    return value_submit(is_per_thread, stream, &work);
}

static CUresult write_v2(bool is_per_thread, size_t size_bytes, CUstream stream,
                         CUdeviceptr address, uint64_t operand, unsigned flags)
{
    struct work work = {.run = run_write,
                        .node_type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP,
                        .as.value = {.address = address,
                                     .size_bytes = size_bytes,
                                     .operand = operand}};
    if (flags)
        return CUDA_ERROR_INVALID_VALUE;
    return value_submit(is_per_thread, stream, &work);
}

/* Only the first version may do without the barrier; here all have it. */
static CUresult write_v1(bool is_per_thread, size_t size_bytes, CUstream stream,
                         CUdeviceptr address, uint64_t operand, unsigned flags)
{
    flags &= ~(unsigned)CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER;
    return write_v2(is_per_thread, size_bytes, stream, address, operand, flags);
}

#define DEFINE_VALUE(symbol, body, bits)                                       \
    DEFINE_BOTH(symbol, _ptsz,                                                 \
                (CUstream stream, CUdeviceptr address, cuuint##bits##_t value, \
                 unsigned flags),                                              \
                body, (bits) / 8, stream, address, value, flags)

DEFINE_VALUE(cuStreamWaitValue32, await, 32)
DEFINE_VALUE(cuStreamWaitValue32_v2, await, 32)
DEFINE_VALUE(cuStreamWaitValue64, await, 64)
DEFINE_VALUE(cuStreamWaitValue64_v2, await, 64)
DEFINE_VALUE(cuStreamWriteValue32, write_v1, 32)
DEFINE_VALUE(cuStreamWriteValue32_v2, write_v2, 32)
DEFINE_VALUE(cuStreamWriteValue64, write_v1, 64)
DEFINE_VALUE(cuStreamWriteValue64_v2, write_v2, 64)
