/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Where subjects that have no driver calls of their own get segments, from
 * cuMemAlloc(), or addresses and pages, by cuMemMap(); both within a limit.
 */
#ifndef MOIETY_BENCH_SUBJECTS_SEGMENTS_H_
#define MOIETY_BENCH_SUBJECTS_SEGMENTS_H_

#include "bench/subjects/subject.h"

/* Device and streams (bench/base/device.h). NULL, or why the device cannot be
 * used, or has too few streams; then bench_device_stop() is not called. */
const char *subject_streams_start(const struct subject_setup *setup);

/* NULL, or why not; then segments_stop() is not called. */
const char *segments_start(const struct subject_setup *setup);
/* All memory of the device; 0: the driver did not say. */
uint64_t segments_device_bytes(void);
/* The limit, or all memory of the device where that is less. */
uint64_t segments_bytes_max(void);
/* 0: beyond the limit, or the driver refused. */
uint64_t segments_take(uint64_t size_bytes);
void segments_give(uint64_t address, uint64_t size_bytes);

/* NULL, or why there are no pages here. */
const char *pages_refusal(void);
/* Addresses without memory; 0: the driver refused. */
uint64_t pages_reserve(uint64_t size_bytes);
void pages_release(uint64_t address, uint64_t size_bytes);
/* False: beyond the limit, or the driver refused; then none is mapped. */
bool pages_map(uint64_t address, uint64_t page_bytes, uint64_t page_count);
/* Waits for all work of the device first. */
void pages_unmap(uint64_t address, uint64_t page_bytes, uint64_t page_count);

/* What there is, of which so much is handed out. */
struct subject_memory segments_memory(uint64_t handed_bytes);
void segments_stop(void);

#endif
