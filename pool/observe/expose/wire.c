/*
 * SPDX-License-Identifier: Apache-2.0
 */
#define _GNU_SOURCE
#include "pool/observe/expose/wire.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "pool/base/clock.h"

#define MS_NS UINT64_C(1000000)
/* Longest that nothing moves; a reader slower than that is no tool. */
#define PATIENCE_NS (2000 * MS_NS)
#define SAID_BYTES_MAX 1024

bool moietyi_wire_wait(int socket, int stop, short events, uint64_t until_ns)
{
    struct pollfd watched[2] = {{.fd = socket, .events = events},
                                {.fd = stop, .events = POLLIN}};
    for (;;) {
        uint64_t now_ns = moietyi_now_ns();
        if (now_ns >= until_ns)
            return false;
        uint64_t left_ms = (until_ns - now_ns) / MS_NS + 1;
        int count = poll(watched, 2, left_ms > 60000 ? 60000 : (int)left_ms);
        if (count < 0 && errno != EINTR)
            return false;
        if (count > 0)
            return watched[1].revents == 0;
    }
}

static bool would_block(ssize_t result)
{
    return result < 0 &&
           (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
}

bool moietyi_wire_read_line(struct moietyi_wire *wire,
                            char line[MOIETYI_REQUEST_BYTES],
                            uint64_t timeout_ns)
{
    uint64_t end_ns = moietyi_now_ns() + timeout_ns;
    size_t used_bytes = 0;
    while (used_bytes < MOIETYI_REQUEST_BYTES &&
           moietyi_wire_wait(wire->socket, wire->stop, POLLIN, end_ns)) {
        ssize_t got = recv(wire->socket, line + used_bytes,
                           MOIETYI_REQUEST_BYTES - used_bytes, 0);
        if (would_block(got))
            continue;
        if (got <= 0)
            return false;
        used_bytes += (size_t)got;
        char *end = memchr(line, '\n', used_bytes);
        if (end) {
            *end = '\0';
            return true;
        }
    }
    return false;
}

void moietyi_wire_flush(struct moietyi_wire *wire)
{
    size_t sent_bytes = 0;
    while (!wire->has_failed && sent_bytes < wire->used_bytes) {
        uint64_t until_ns = moietyi_now_ns() + PATIENCE_NS;
        if (until_ns > wire->end_ns)
            until_ns = wire->end_ns;
        if (!moietyi_wire_wait(wire->socket, wire->stop, POLLOUT, until_ns)) {
            wire->has_failed = true;
            break;
        }
        ssize_t sent = send(wire->socket, wire->bytes + sent_bytes,
                            wire->used_bytes - sent_bytes, MSG_NOSIGNAL);
        if (sent > 0)
            sent_bytes += (size_t)sent;
        else if (!would_block(sent))
            wire->has_failed = true;
    }
    wire->used_bytes = 0;
}

void moietyi_wire_say(struct moietyi_wire *wire, const char *format, ...)
{
    va_list arguments;
    if (wire->has_failed)
        return;
    if (sizeof(wire->bytes) - wire->used_bytes < SAID_BYTES_MAX + 1)
        moietyi_wire_flush(wire);
    va_start(arguments, format);
    int length = vsnprintf(wire->bytes + wire->used_bytes, SAID_BYTES_MAX + 1,
                           format, arguments);
    va_end(arguments);
    if (length < 0 || length > SAID_BYTES_MAX)
        wire->has_failed = true;
    else
        wire->used_bytes += (size_t)length;
}

void moietyi_wire_say_text(struct moietyi_wire *wire, const char *text)
{
    moietyi_wire_say(wire, "\"");
    for (; *text; text++) {
        unsigned char byte = (unsigned char)*text;
        if (byte < 0x20 || byte >= 0x7f || byte == '"' || byte == '\\')
            moietyi_wire_say(wire, "\\u%04x", byte);
        else
            moietyi_wire_say(wire, "%c", byte);
    }
    moietyi_wire_say(wire, "\"");
}
