/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Frames as bytes, for tests that send sound and unsound ones. Makes and reads;
 * asserts nothing.
 */
#ifndef MOIETY_TESTS_SERVE_FRAME_PROBE_H_
#define MOIETY_TESTS_SERVE_FRAME_PROBE_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

size_t frame_probe_bytes(void);
/* A sound request without descriptors. Kinds: "hello", "create", "put", "commit",
 * "open", "fetch", "layout", "close", "drop", "drain", "list", "report",
 * "acknowledge". */
void frame_probe_make(void *frame, const char *kind);
/* Fields: "magic", "version", "kind", "frame_bytes", "descriptor_count", "status",
 * "is_writer", "part", "first", "cursor", "part_count", "token", "number",
 * "state", "generation", "layout_bytes". */
void frame_probe_set(void *frame, const char *field, uint64_t value);
uint64_t frame_probe_get(const void *frame, const char *field);
/* The name as it is, up to all of its bytes. */
void frame_probe_name(void *frame, const char *name, size_t length);
void frame_probe_part(void *frame, uint32_t part, uint8_t uuid,
                      uint64_t size_bytes, uint64_t handle_bytes);
/* The first part, of the same device as that of another frame. */
void frame_probe_part_like(void *frame, const void *other, uint64_t size_bytes,
                           uint64_t handle_bytes);
const char *frame_probe_message(const void *frame);

#ifdef __cplusplus
}
#endif

#endif
