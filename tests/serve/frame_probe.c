/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tests/serve/frame_probe.h"

#include <string.h>

#include "serve/protocol/frame.h"

static const char *const kinds[MOIETYI_SERVE_KIND_END] = {
    [MOIETYI_SERVE_HELLO] = "hello",
    [MOIETYI_SERVE_CREATE] = "create",
    [MOIETYI_SERVE_PUT] = "put",
    [MOIETYI_SERVE_COMMIT] = "commit",
    [MOIETYI_SERVE_OPEN] = "open",
    [MOIETYI_SERVE_FETCH] = "fetch",
    [MOIETYI_SERVE_FETCH_LAYOUT] = "layout",
    [MOIETYI_SERVE_CLOSE] = "close",
    [MOIETYI_SERVE_DROP] = "drop",
    [MOIETYI_SERVE_DRAIN] = "drain",
    [MOIETYI_SERVE_LIST] = "list",
    [MOIETYI_SERVE_REPORT] = "report",
    [MOIETYI_SERVE_ACKNOWLEDGE] = "acknowledge"};

#define FIELD(path, label)                                                     \
    {                                                                          \
        label, offsetof(struct moietyi_serve_frame, path),                     \
            sizeof(((struct moietyi_serve_frame *)NULL)->path)                 \
    }

static const struct {
    const char *name;
    size_t offset;
    size_t bytes;
} fields[] = {FIELD(magic, "magic"),
              FIELD(version, "version"),
              FIELD(kind, "kind"),
              FIELD(frame_bytes, "frame_bytes"),
              FIELD(descriptor_count, "descriptor_count"),
              FIELD(status, "status"),
              FIELD(is_writer, "is_writer"),
              FIELD(part, "part"),
              FIELD(first, "first"),
              FIELD(cursor, "cursor"),
              FIELD(region.part_count, "part_count"),
              /* Its first bytes. */
              {"token", offsetof(struct moietyi_serve_frame, token), 8},
              FIELD(region.number, "number"),
              FIELD(region.state, "state"),
              FIELD(region.generation, "generation"),
              FIELD(region.layout_bytes, "layout_bytes")};

size_t frame_probe_bytes(void)
{
    return sizeof(struct moietyi_serve_frame);
}

void frame_probe_make(void *frame, const char *kind)
{
    struct moietyi_serve_frame made = {.magic = MOIETYI_SERVE_MAGIC,
                                       .version = MOIETYI_SERVE_VERSION,
                                       .frame_bytes = (uint32_t)sizeof(made),
                                       .sequence = 1};
    for (uint16_t i = 1; i < MOIETYI_SERVE_KIND_END; i++)
        if (strcmp(kinds[i], kind) == 0)
            made.kind = i;
    memcpy(frame, &made, sizeof(made));
}

void frame_probe_set(void *frame, const char *field, uint64_t value)
{
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
        if (strcmp(fields[i].name, field) == 0)
            memcpy((char *)frame + fields[i].offset, &value, fields[i].bytes);
}

uint64_t frame_probe_get(const void *frame, const char *field)
{
    uint64_t value = 0;
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
        if (strcmp(fields[i].name, field) == 0)
            memcpy(&value, (const char *)frame + fields[i].offset,
                   fields[i].bytes);
    return value;
}

void frame_probe_name(void *frame, const char *name, size_t length)
{
    struct moietyi_serve_frame *into = frame;
    memset(into->region.name, 0, sizeof(into->region.name));
    memcpy(into->region.name, name,
           length < sizeof(into->region.name) ? length
                                              : sizeof(into->region.name));
}

void frame_probe_part(void *frame, uint32_t part, uint8_t uuid,
                      uint64_t size_bytes, uint64_t handle_bytes)
{
    struct moietyi_serve_frame *into = frame;
    into->region.parts[part] =
        (struct moietyi_serve_part){.device_uuid = {uuid},
                                    .size_bytes = size_bytes,
                                    .handle_bytes = handle_bytes};
}

void frame_probe_part_like(void *frame, const void *other, uint64_t size_bytes,
                           uint64_t handle_bytes)
{
    struct moietyi_serve_part *part =
        &((struct moietyi_serve_frame *)frame)->region.parts[0];
    *part = ((const struct moietyi_serve_frame *)other)->region.parts[0];
    part->size_bytes = size_bytes;
    part->handle_bytes = handle_bytes;
}

const char *frame_probe_message(const void *frame)
{
    return ((const struct moietyi_serve_frame *)frame)->message;
}
