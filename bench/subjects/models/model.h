/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A model of an allocator: where it has its memory from, and its calls. The
 * header of each says what it models and creates one.
 *
 * One mutex around every call. Addresses are never 0.
 */
#ifndef MOIETY_BENCH_SUBJECTS_MODELS_MODEL_H_
#define MOIETY_BENCH_SUBJECTS_MODELS_MODEL_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Where segments come from. `take` returns 0 when there is no more. Called
 * under the model's mutex. */
struct model_source {
    uint64_t (*take)(uint64_t size_bytes);
    void (*give)(uint64_t address, uint64_t size_bytes);
};

struct model;

/* Gives all segments back, whatever is in them. */
void model_destroy(struct model *model);

/* 0: there is no memory. */
uint64_t model_alloc(struct model *model, uint64_t size_bytes, uint32_t stream);
/* The block goes back to the stream that it was allocated for. Aborts where
 * there is no such block. */
void model_free(struct model *model, uint64_t address);

/* Bytes in blocks that are allocated, as they were rounded and split. */
uint64_t model_handed_bytes(struct model *model);
/* Each segment, by address. */
void model_each_segment(struct model *model,
                        void (*take)(void *context, uint64_t address,
                                     uint64_t size_bytes),
                        void *context);

#ifdef __cplusplus
}
#endif

#endif
