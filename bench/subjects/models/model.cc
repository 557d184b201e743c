// SPDX-License-Identifier: Apache-2.0
#include "bench/subjects/models/model_state.h"

model::~model()
{
    for (const auto &[address, bytes] : segments)
        source.give(address, bytes);
}

void model_destroy(model *model)
{
    delete model;
}

uint64_t model_alloc(model *model, uint64_t size_bytes, uint32_t stream)
{
    const std::lock_guard<std::mutex> lock(model->mutex);
    return model->Alloc(size_bytes, stream);
}

void model_free(model *model, uint64_t address)
{
    const std::lock_guard<std::mutex> lock(model->mutex);
    model->Free(address);
}

uint64_t model_handed_bytes(model *model)
{
    const std::lock_guard<std::mutex> lock(model->mutex);
    return model->handed_bytes;
}

void model_each_segment(model *model,
                        void (*take)(void *context, uint64_t address,
                                     uint64_t size_bytes),
                        void *context)
{
    const std::lock_guard<std::mutex> lock(model->mutex);
    for (const auto &[address, bytes] : model->segments)
        take(context, address, bytes);
}
