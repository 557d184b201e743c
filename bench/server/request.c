/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "bench/server/request.h"

#include <math.h>

#include "bench/base/random.h"

#define GRANULE_BYTES ((size_t)64)

/* One tensor in four stays, one request in four is handed over. */
#define KEPT_PART 4U
#define HANDED_OVER_PART 4U

/* Each size as likely as its double. */
static size_t log_uniform(uint64_t *random)
{
    const double doublings =
        log2((double)SERVER_TENSOR_BYTES_MAX / (double)SERVER_TENSOR_BYTES_MIN);
    double bytes =
        (double)SERVER_TENSOR_BYTES_MIN * exp2(random_unit(random) * doublings);
    return (size_t)bytes / GRANULE_BYTES * GRANULE_BYTES;
}

void server_request_make(uint64_t seed, uint64_t number,
                         struct server_request *out)
{
    uint64_t random =
        random_start(seed ^ (number + 1) * UINT64_C(0xbf58476d1ce4e5b9), 0);
    out->number = number;
    out->input_bytes = log_uniform(&random);
    out->input_offset_bytes =
        random_below(&random, SERVER_INPUT_OFFSET_MAX / GRANULE_BYTES) *
        GRANULE_BYTES;
    out->tensor_count =
        SERVER_TENSORS_MIN +
        random_below(&random, SERVER_TENSORS_MAX - SERVER_TENSORS_MIN + 1);
    out->is_handed_over = random_below(&random, HANDED_OVER_PART) == 0;
    for (unsigned i = 0; i < out->tensor_count; i++) {
        out->tensors[i].size_bytes = log_uniform(&random);
        out->tensors[i].is_kept = random_below(&random, KEPT_PART) == 0;
    }
}

uint32_t server_request_tag(const struct server_request *request,
                            unsigned tensor)
{
    uint64_t mix = (request->number * SERVER_TENSORS_MAX + tensor + 1) *
                   UINT64_C(0x9e3779b97f4a7c15);
    return (uint32_t)(mix >> 32);
}
