/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The process that talks to clients: one thread, and the closer's. All that must
 * outlive it is in the vault before a client hears of it.
 */
#ifndef MOIETY_SERVE_KEEPER_KEEPER_H_
#define MOIETY_SERVE_KEEPER_KEEPER_H_

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "serve/keeper/closer.h"
#include "serve/keeper/vault.h"
#include "serve/protocol/frame.h"

/* The kind of object that an event of epoll has: its first field. */
enum moietyi_source_kind {
    MOIETYI_SOURCE_LISTENER,
    MOIETYI_SOURCE_CLOSER,
    MOIETYI_SOURCE_SIGNALS,
    MOIETYI_SOURCE_CLIENT,
    MOIETYI_SOURCE_HOLD
};

struct moietyi_client {
    enum moietyi_source_kind kind;
    int socket;
    int pidfd; /* of the process that connected */
    pid_t pid;
    uint64_t deadline_ns; /* for an acknowledgement; 0: none is due */
    struct moietyi_client *next;
};

/* A lease of a process on a region; it ends with the process. */
struct moietyi_hold {
    enum moietyi_source_kind kind;
    int pidfd;
    pid_t pid;
    uint64_t number;
    uint8_t token[MOIETYI_SERVE_TOKEN_BYTES];
    bool is_writer;   /* counts while the region is WRITING */
    bool has_fetched; /* memory of it */
    bool has_reported;
    struct moietyi_client *client; /* used it last; NULL: its socket closed */
    struct moietyi_kept *region;
    struct moietyi_hold *next;
};

struct moietyi_memory {
    uint64_t number; /* in the vault; 0: none is there yet */
    int descriptor;
};

/* A region that the keeper holds. */
struct moietyi_kept {
    struct moietyi_serve_region value;
    struct moietyi_memory *memory; /* handles of all parts, one after another */
    size_t handle_count;
    struct moietyi_memory layout;
    uint64_t size_bytes;
    uint32_t hold_count;
    bool has_report;      /* a process could not map it: */
    pid_t reporter;       /* 0: one that the keeper cannot see */
    bool is_ending;       /* its vault entries are gone, but for its own */
    size_t next_close;    /* handle that the closer gets next */
    size_t closing_count; /* handles that the closer has */
    struct moietyi_kept *next;
};

struct moietyi_keeper_options {
    const char *path;
    uint64_t limit_bytes; /* 0: none */
    bool accepts_memfd;   /* tests: memory of the stand-in driver */
};

struct moietyi_keeper {
    struct moietyi_keeper_options options;
    enum moietyi_source_kind listener_kind;
    enum moietyi_source_kind closer_kind;
    enum moietyi_source_kind signals_kind;
    int vault;
    int listener;
    int epoll;
    int signals;      /* SIGUSR1 */
    bool is_draining; /* no regions are created; it ends with the last one */
    int descriptors;  /* that the process can have */
    uint32_t client_count;
    uint64_t resume_ns; /* when accepting does; 0: it is not paused */
    uint64_t used_bytes;
    uint64_t last_number;
    struct moietyi_client *clients;
    struct moietyi_hold *holds;
    struct moietyi_kept *regions; /* the oldest first */
    struct moietyi_closer closer;
};

/* regions.c. */

/* Reads all records of the vault. */
MOIETY_MUST_USE moiety_status
moietyi_keeper_restore(struct moietyi_keeper *keeper);
/* By name, unless it is dropped; NULL: none. */
struct moietyi_kept *moietyi_kept_find(const struct moietyi_keeper *keeper,
                                       const char *name);
/* A handle of a part. Both are in range. */
struct moietyi_memory *moietyi_kept_memory(const struct moietyi_kept *kept,
                                           uint32_t part, uint32_t index);
struct moietyi_hold *moietyi_hold_find(const struct moietyi_keeper *keeper,
                                       const struct moietyi_client *client,
                                       const uint8_t *token);
/* The lease that writes the region now; NULL: none. */
struct moietyi_hold *moietyi_kept_writer(const struct moietyi_keeper *keeper,
                                         const struct moietyi_kept *kept);
MOIETY_MUST_USE moiety_status moietyi_kept_create(
    struct moietyi_keeper *keeper, const struct moietyi_serve_region *wanted,
    struct moietyi_kept **out);
/* Sets the state, in the vault first. */
MOIETY_MUST_USE moiety_status
moietyi_kept_store(struct moietyi_keeper *keeper, struct moietyi_kept *kept,
                   const struct moietyi_serve_region *value);
MOIETY_MUST_USE moiety_status moietyi_hold_create(struct moietyi_keeper *keeper,
                                                  struct moietyi_kept *kept,
                                                  struct moietyi_client *client,
                                                  const uint8_t *token,
                                                  bool is_writer);
/* A writer's end before its commit drops the region. */
void moietyi_hold_end(struct moietyi_keeper *keeper, struct moietyi_hold *hold);
/* From now on it has no name; it goes when nobody holds it. */
void moietyi_kept_drop(struct moietyi_keeper *keeper,
                       struct moietyi_kept *kept);
/* All committed ones, and if `takes_written` those that are written, too: their
 * writers cannot commit them. Returns how many. */
uint64_t moietyi_keeper_drop_all(struct moietyi_keeper *keeper,
                                 bool takes_written);
/* Keeps the descriptor under the slot's number, a new one at first. On a failure
 * the descriptor is still the caller's. */
MOIETY_MUST_USE moiety_status moietyi_memory_keep(
    struct moietyi_keeper *keeper, const struct moietyi_kept *kept,
    struct moietyi_memory *memory, struct moietyi_record *record,
    int descriptor);
/* Ends regions that can end, as far as the closer has room. */
void moietyi_keeper_sweep(struct moietyi_keeper *keeper);

/* requests.c. */

/* Descriptors that a reply sends: copies of the keeper's own, which stay. */
struct moietyi_lent {
    size_t count;
    int descriptors[MOIETYI_SERVE_DESCRIPTORS];
};

/* Handles a request and makes the reply in its place. Descriptors that the keeper
 * keeps are taken out of `received`. */
void moietyi_keeper_answer(struct moietyi_keeper *keeper,
                           struct moietyi_client *client,
                           struct moietyi_serve_received *received,
                           struct moietyi_lent *out);

/* clients.c. */

void moietyi_keeper_accept(struct moietyi_keeper *keeper);
void moietyi_client_read(struct moietyi_keeper *keeper,
                         struct moietyi_client *client);
/* Cuts off clients that owe an acknowledgement, and accepts again after a pause;
 * when the next one is due, in ms, or -1. */
int moietyi_clients_check(struct moietyi_keeper *keeper);

/* loop.c. */

/* The child of the vault; returns if it cannot work, or 0 if it is drained. `context` is the
 * keeper, with options and listener. */
int moietyi_keeper_serve(int vault, void *context);
MOIETY_MUST_USE bool moietyi_keeper_watch(struct moietyi_keeper *keeper,
                                          int descriptor, void *source);
void moietyi_keeper_unwatch(struct moietyi_keeper *keeper, int descriptor);

/* socket.c. */

/* A listening socket at the path, and a locked file beside it; both live as long
 * as the keeper's processes. -1: why is on stderr. */
int moietyi_socket_listen(const char *path);
/* Finds the process at the other end. MOIETY_E_INVALID: it is another user's. */
MOIETY_MUST_USE moiety_status moietyi_socket_peer(int socket, pid_t *out_pid,
                                                  int *out_pidfd);

#endif
