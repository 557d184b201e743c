/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * One conversation with a client: bounded in time and in memory, whatever the
 * other side does. A write that fails makes all that follow do nothing.
 */
#ifndef MOIETY_POOL_OBSERVE_EXPOSE_WIRE_H_
#define MOIETY_POOL_OBSERVE_EXPOSE_WIRE_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes of a request, its end included. */
#define MOIETYI_REQUEST_BYTES 64

struct moietyi_wire {
    int socket; /* non-blocking */
    int stop;   /* readable: give up */
    uint64_t end_ns;
    bool has_failed;
    size_t used_bytes;
    char bytes[8192];
};

/* Waits for one of poll()'s `events` at the socket. False: `stop` is readable,
 * or the time is over. */
bool moietyi_wire_wait(int socket, int stop, short events, uint64_t until_ns);
/* A line without its end, as a string. False: none came in time, or it is too
 * long. */
bool moietyi_wire_read_line(struct moietyi_wire *wire,
                            char line[MOIETYI_REQUEST_BYTES],
                            uint64_t timeout_ns);
/* At most 1024 bytes. */
void moietyi_wire_say(struct moietyi_wire *wire, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* As a string of JSON: what is no printable ASCII is escaped byte by byte. */
void moietyi_wire_say_text(struct moietyi_wire *wire, const char *text);
void moietyi_wire_flush(struct moietyi_wire *wire);

#endif
