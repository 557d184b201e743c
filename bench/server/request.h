/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What a request asks for. The number and the seed decide everything, so that
 * every subject gets the same requests, whichever thread serves them.
 */
#ifndef MOIETY_BENCH_SERVER_REQUEST_H_
#define MOIETY_BENCH_SERVER_REQUEST_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SERVER_TENSORS_MIN 6U
#define SERVER_TENSORS_MAX 12U
#define SERVER_TENSOR_BYTES_MIN ((size_t)4096)
#define SERVER_TENSOR_BYTES_MAX ((size_t)2 << 20)
/* Inputs start at different places of the pattern that they are taken from. */
#define SERVER_INPUT_OFFSET_MAX ((size_t)64 << 10)

/* An intermediate result of a model. */
struct server_tensor {
    size_t size_bytes; /* a multiple of 64, log-uniform */
    bool is_kept;      /* until the request ends, else until the next is made */
};

struct server_request {
    uint64_t number;
    size_t input_bytes; /* a multiple of 64, log-uniform */
    size_t input_offset_bytes;
    unsigned tensor_count;
    /* Another thread frees what is live when the request ends. */
    bool is_handed_over;
    struct server_tensor tensors[SERVER_TENSORS_MAX];
};

void server_request_make(uint64_t seed, uint64_t number,
                         struct server_request *out);

/* What this tensor is filled with, word by word; no two are likely the same. */
uint32_t server_request_tag(const struct server_request *request,
                            unsigned tensor);

#endif
