/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Pointer attributes.
 */
#include <string.h>

#include "pool/standin/entries/entry.h"
#include "pool/standin/entries/memory_api.h"
#include "pool/standin/memory/address.h"

/* What an attribute is asked about; at most the reservation is there when the
 * address is reserved but not mapped. */
struct subject {
    CUdeviceptr address;
    const struct address_range *range;
    const struct address_range *reservation;
    const struct CUctx_st *current; /* NULL when none is */
};

/* Any attribute's value; the first `size_bytes` of it are the caller's. */
struct answer {
    union {
        void *pointer;
        uint64_t wide;
        unsigned word;
        int number;
    } value;
    size_t size_bytes;
};

static struct answer memory_of_pointer(void *pointer)
{
    return (struct answer){{.pointer = pointer}, sizeof(void *)};
}

static struct answer of_wide(uint64_t wide)
{
    return (struct answer){{.wide = wide}, sizeof(uint64_t)};
}

static struct answer of_word(unsigned word)
{
    return (struct answer){{.word = word}, sizeof(unsigned)};
}

static struct answer of_number(int number)
{
    return (struct answer){{.number = number}, sizeof(int)};
}

static struct answer of_truth(bool truth)
{
    return of_word(truth);
}

static bool is_host_kind(const struct address_range *range)
{
    return range->kind == ADDRESS_PINNED || range->kind == ADDRESS_REGISTERED;
}

static bool cpu_may_touch(const struct address_range *range)
{
    return is_host_kind(range) || range->kind == ADDRESS_MANAGED ||
           (range->kind == ADDRESS_MAPPING &&
            range->host_access != CU_MEM_ACCESS_FLAGS_PROT_NONE);
}

static bool is_on_host(const struct address_range *range)
{
    return !range->device;
}

/* Host memory counts to the device that pinned it; device 0 where none did. */
static int ordinal_of(const struct address_range *range)
{
    if (range->device)
        return range->device->ordinal;
    return range->context ? range->context->device->ordinal : 0;
}

/* Memory that belongs to a device or to the process has no context. */
static void *pointer_context_of(const struct address_range *range)
{
    bool is_shared =
        range->kind == ADDRESS_POOL || range->kind == ADDRESS_MAPPING;
    return is_shared ? NULL : range->context;
}

static unsigned access_of(const struct subject *subject)
{
    const struct address_range *range = subject->range;
    if (range->kind != ADDRESS_MAPPING)
        return CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    if (!subject->current)
        return CU_MEM_ACCESS_FLAGS_PROT_NONE;
    return range->access[subject->current->device->ordinal];
}

/* Where the address lies. Of a reservation without memory only the call for
 * many attributes tells the place; of an unknown address it tells nothing. */
static CUresult ask_place(const struct subject *subject,
                          CUpointer_attribute attribute, struct answer *out)
{
    const struct address_range *place =
        subject->reservation ? subject->reservation : subject->range;
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        if (place)
            *out = of_wide(place->base);
        break;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        if (place)
            *out = of_wide(place->size_bytes);
        break;
    case CU_POINTER_ATTRIBUTE_MAPPED:
        *out = of_truth(subject->range);
        break;
    default:
        return CUDA_ERROR_NOT_FOUND;
    }
    return subject->range ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Answers that are there for every kind of memory. */
static CUresult ask_memory(const struct subject *subject,
                           CUpointer_attribute attribute, struct answer *out)
{
    const struct address_range *range = subject->range;
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        *out = memory_of_pointer(range ? pointer_context_of(range) : NULL);
        break;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
        *out = of_wide(range ? range->id : 0);
        break;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
        *out = of_truth(range && (range->has_sync_memops ||
                                  range->kind == ADDRESS_MANAGED));
        break;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        *out = of_truth(range && range->kind == ADDRESS_MANAGED);
        break;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *out = of_number(range ? ordinal_of(range) : CU_DEVICE_INVALID);
        break;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        *out = of_truth(range && range->kind == ADDRESS_DEVICE);
        break;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
        *out = of_wide(range ? range->handle_types : 0);
        break;
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
        *out = of_word(range ? access_of(subject) : 0);
        break;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        *out = memory_of_pointer(range ? range->pool : NULL);
        break;
    default:
        return CUDA_ERROR_NOT_FOUND;
    }
    return range ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Answers that hang on who may reach the memory. */
static CUresult ask_reach(const struct subject *subject,
                          CUpointer_attribute attribute, struct answer *out)
{
    const struct address_range *range = subject->range;
    bool is_there = range && subject->current && access_of(subject);
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        is_there = range;
        *out = of_word(0);
        if (range)
            *out = of_word(is_on_host(range) ? CU_MEMORYTYPE_HOST
                                             : CU_MEMORYTYPE_DEVICE);
        break;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        *out = of_wide(is_there ? subject->address : 0);
        break;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        is_there = range && cpu_may_touch(range);
        /* What is unknown may well be plain host memory. */
        *out = of_wide(is_there || !range ? subject->address : 0);
        break;
    case CU_POINTER_ATTRIBUTE_P2P_TOKENS:
        return CUDA_ERROR_NOT_SUPPORTED; /* no kernel module stands behind */
    default:
        return CUDA_ERROR_NOT_FOUND;
    }
    if (attribute == CU_POINTER_ATTRIBUTE_DEVICE_POINTER && range &&
        !subject->current)
        return CUDA_ERROR_INVALID_CONTEXT;
    return is_there ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* *out is the default value where the pointer is at fault; its size is 0 where
 * there is none. NOT_FOUND for an attribute that does not exist. */
static CUresult pointer_ask(const struct subject *subject,
                            CUpointer_attribute attribute, struct answer *out)
{
    memset(out, 0, sizeof(*out));
    CUresult code = ask_place(subject, attribute, out);
    if (code == CUDA_ERROR_NOT_FOUND)
        code = ask_memory(subject, attribute, out);
    if (code == CUDA_ERROR_NOT_FOUND)
        code = ask_reach(subject, attribute, out);
    return code;
}

static struct subject subject_at(CUdeviceptr address)
{
    CUresult code;
    return (struct subject){
        .address = address,
        .range = address_find(&address_live, address),
        .reservation = address_find(&address_reserved, address),
        .current = context_current(&code),
    };
}

CUresult cuPointerGetAttribute(void *out, CUpointer_attribute attribute,
                               CUdeviceptr address)
{
    ENTER(cuPointerGetAttribute, NEEDS_INIT);
    struct answer answer;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    standin_lock();
    struct subject subject = subject_at(address);
    CUresult code = pointer_ask(&subject, attribute, &answer);
    if (code == CUDA_SUCCESS)
        memcpy(out, &answer.value, answer.size_bytes);
    if (code == CUDA_ERROR_NOT_FOUND)
        code = CUDA_ERROR_INVALID_VALUE;
    return standin_leave(code);
}

CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute *attributes,
                                void **outs, CUdeviceptr address)
{
    ENTER(cuPointerGetAttributes, NEEDS_INIT);
    struct answer answer;
    if (count == 0 || !attributes || !outs)
        return CUDA_ERROR_INVALID_VALUE;
    standin_lock();
    struct subject subject = subject_at(address);
    for (unsigned i = 0; i < count; i++) {
        CUresult code = pointer_ask(&subject, attributes[i], &answer);
        if (!outs[i] || code == CUDA_ERROR_NOT_FOUND)
            return standin_leave(CUDA_ERROR_INVALID_VALUE);
        if (code == CUDA_ERROR_NOT_SUPPORTED)
            return standin_leave(code);
        memcpy(outs[i], &answer.value, answer.size_bytes);
    }
    return standin_leave(CUDA_SUCCESS);
}

CUresult cuPointerSetAttribute(const void *value, CUpointer_attribute attribute,
                               CUdeviceptr address)
{
    ENTER(cuPointerSetAttribute, NEEDS_INIT);
    unsigned wanted;
    if (!value || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(&wanted, value, sizeof(wanted));
    standin_lock();
    struct address_range *range = address_find(&address_live, address);
    if (!range || is_on_host(range) || range->kind == ADDRESS_MANAGED)
        return standin_leave(CUDA_ERROR_INVALID_VALUE);
    range->has_sync_memops = wanted != 0;
    return standin_leave(CUDA_SUCCESS);
}
