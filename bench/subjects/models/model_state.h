// SPDX-License-Identifier: Apache-2.0
//
// What all models have, for their own files; their functions are called under
// the mutex.
#ifndef MOIETY_BENCH_SUBJECTS_MODELS_MODEL_STATE_H_
#define MOIETY_BENCH_SUBJECTS_MODELS_MODEL_STATE_H_

#include <cstdint>
#include <map>
#include <mutex>

#include "bench/subjects/models/model.h"

struct model {
    explicit model(const model_source &from) : source(from) {}
    model(const model &) = delete;
    model &operator=(const model &) = delete;
    virtual ~model();

    virtual uint64_t Alloc(uint64_t size_bytes, uint32_t stream) = 0;
    virtual void Free(uint64_t address) = 0;

    std::mutex mutex;
    model_source source;
    std::map<uint64_t, uint64_t> segments; // bytes, by address
    uint64_t handed_bytes = 0;
};

#endif
