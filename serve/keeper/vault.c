/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The vault's side: a sorted array of records, one thread, no timers. A child
 * that ended is waited for only when all of its messages are read, so nothing
 * that it gave away is lost.
 */
#define _GNU_SOURCE
#include "serve/keeper/vault.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pool/base/clock.h"
#include "serve/keeper/vault_message.h"

/* A child that does not live so long is not restarted at once. */
#define VAULT_SHORT_LIFE_NS UINT64_C(1000000000)
#define VAULT_NAP_NS 100000000L

struct vault_entry {
    struct moietyi_record record;
    int descriptor; /* -1: none */
};

struct vault {
    struct vault_entry **entries; /* sorted by number */
    size_t count;
    size_t capacity;
    uint64_t highest; /* number ever put */
    int signals;
    sigset_t mask; /* of the program, before */
    int child_socket;
    pid_t child; /* 0: none now */
    bool is_draining;
};

/* The first entry whose number is at least `number`. */
static size_t vault_index_from(const struct vault *vault, uint64_t number)
{
    size_t low = 0;
    size_t high = vault->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (vault->entries[middle]->record.number < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Never to a number that is no process, such as -1, which means all of them. */
static void vault_signal(const struct vault *vault, int number)
{
    if (vault->child > 1)
        (void)kill(vault->child, number);
}

static void vault_close(int descriptor)
{
    if (descriptor >= 0)
        (void)close(descriptor);
}

static bool vault_make_room(struct vault *vault)
{
    if (vault->count < vault->capacity)
        return true;
    size_t capacity = vault->capacity ? 2 * vault->capacity : 64;
    struct vault_entry **larger =
        realloc(vault->entries, capacity * sizeof(void *));
    if (!larger)
        return false;
    vault->entries = larger;
    vault->capacity = capacity;
    return true;
}

static moiety_status vault_do_put(struct vault *vault,
                                  const struct moietyi_record *record,
                                  int descriptor)
{
    size_t at = vault_index_from(vault, record->number);
    if (at < vault->count &&
        vault->entries[at]->record.number == record->number) {
        struct vault_entry *entry = vault->entries[at];
        entry->record = *record;
        if (descriptor >= 0) {
            vault_close(entry->descriptor);
            entry->descriptor = descriptor;
        }
        return MOIETY_OK;
    }
    struct vault_entry *added =
        vault_make_room(vault) ? malloc(sizeof(*added)) : NULL;
    if (!added) {
        vault_close(descriptor);
        return MOIETY_E_NO_HOST_MEMORY;
    }
    *added = (struct vault_entry){*record, descriptor};
    memmove(&vault->entries[at + 1], &vault->entries[at],
            (vault->count - at) * sizeof(void *));
    vault->entries[at] = added;
    vault->count++;
    if (record->number > vault->highest)
        vault->highest = record->number;
    return MOIETY_OK;
}

static void vault_do_drop(struct vault *vault, uint64_t number)
{
    size_t at = vault_index_from(vault, number);
    if (at == vault->count || vault->entries[at]->record.number != number)
        return;
    vault_close(vault->entries[at]->descriptor);
    free(vault->entries[at]);
    vault->count--;
    memmove(&vault->entries[at], &vault->entries[at + 1],
            (vault->count - at) * sizeof(void *));
}

/* One message and its answer. False: the child is gone. */
static bool vault_answer(struct vault *vault)
{
    struct vault_message message;
    bool is_cut = false;
    int descriptor;
    int answer = -1;
    if (!moietyi_vault_receive(vault->child_socket, &message, &descriptor,
                               &is_cut))
        return false;
    message.status = MOIETY_OK;
    if (is_cut) {
        message.status = MOIETY_E_NO_HOST_MEMORY;
    } else if (message.verb == VAULT_PUT) {
        message.status =
            (int32_t)vault_do_put(vault, &message.record, descriptor);
    } else if (message.verb == VAULT_DROP) {
        vault_do_drop(vault, message.record.number);
    } else {
        size_t at = vault_index_from(vault, message.record.number + 1);
        if (at < vault->count) {
            message.record = vault->entries[at]->record;
            answer = vault->entries[at]->descriptor;
        } else {
            message.status = MOIETY_E_STALE;
            message.record.number = vault->highest;
        }
    }
    /* A child that is gone shows at the next receive. */
    (void)moietyi_vault_send(vault->child_socket, &message, answer);
    return true;
}

/* In the child: nothing of the vault's is left open. */
static void vault_leave(const struct vault *vault)
{
    for (size_t i = 0; i < vault->count; i++)
        vault_close(vault->entries[i]->descriptor);
    vault_close(vault->signals);
    sigset_t mask = vault->mask;
    (void)sigaddset(&mask, SIGUSR1); /* it reads that one */
    (void)pthread_sigmask(SIG_SETMASK, &mask, NULL);
}

static bool vault_fork(struct vault *vault,
                       int (*serve)(int vault, void *context), void *context)
{
    int sockets[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0)
        return false;
    vault->child = fork();
    if (vault->child == 0) {
        (void)close(sockets[0]);
        vault_leave(vault);
        _exit(serve(sockets[1], context));
    }
    (void)close(sockets[1]);
    vault->child_socket = sockets[0];
    if (vault->child < 0)
        vault_close(vault->child_socket);
    else if (vault->is_draining)
        vault_signal(vault, SIGUSR1);
    return vault->child > 0;
}

/* Reads the signals that have come, and passes SIGUSR1 on. Whether another one has
 * come, which asks for the end. */
static bool vault_is_asked(struct vault *vault)
{
    struct signalfd_siginfo signal;
    while (read(vault->signals, &signal, sizeof(signal)) ==
           (ssize_t)sizeof(signal)) {
        if (signal.ssi_signo != SIGUSR1)
            return true;
        vault->is_draining = true;
        vault_signal(vault, SIGUSR1);
    }
    return false;
}

/* Works until the child has ended (true) or a signal has come. */
static bool vault_attend(struct vault *vault)
{
    struct pollfd both[2] = {{.fd = vault->child_socket, .events = POLLIN},
                             {.fd = vault->signals, .events = POLLIN}};
    for (;;) {
        if (poll(both, 2, -1) < 0)
            continue;
        if (both[1].revents && vault_is_asked(vault))
            return false;
        if (both[0].revents && !vault_answer(vault))
            return true;
    }
}

/* A child whose messages cannot be read any more has to end too. Whether it was
 * drained: it ends by itself then. */
static bool vault_bury(struct vault *vault, bool is_asked)
{
    int status = 0;
    vault_close(vault->child_socket);
    vault_signal(vault, is_asked ? SIGTERM : SIGKILL);
    while (waitpid(vault->child, &status, 0) < 0 && errno == EINTR)
        continue;
    vault->child = 0;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0 && !vault->count)
        return true;
    if (!is_asked) {
        (void)fprintf(stderr,
                      "moiety-serve: the process for clients has ended "
                      "(status %#x); it is started again with %zu records\n",
                      (unsigned)status, vault->count);
    }
    return false;
}

int moietyi_vault_run(int (*serve)(int vault, void *context), void *context)
{
    struct vault vault = {.count = 0};
    sigset_t asked;
    bool is_asked = false;
    (void)sigemptyset(&asked);
    (void)sigaddset(&asked, SIGTERM);
    (void)sigaddset(&asked, SIGINT);
    (void)sigaddset(&asked, SIGUSR1);
    (void)pthread_sigmask(SIG_BLOCK, &asked, &vault.mask);
    /* If nobody reads stderr any more, a message must not end the vault. */
    (void)signal(SIGPIPE, SIG_IGN);
    vault.signals = signalfd(-1, &asked, SFD_CLOEXEC | SFD_NONBLOCK);
    if (vault.signals < 0) {
        perror("moiety-serve: signalfd");
        return 1;
    }
    while (!is_asked) {
        uint64_t begun_ns = moietyi_now_ns();
        if (!vault_fork(&vault, serve, context)) {
            perror("moiety-serve: fork");
            if (!vault.count)
                return 1;
            /* Its descriptors are worth more than an answer to clients now. */
            moietyi_nap(VAULT_NAP_NS);
            is_asked = vault_is_asked(&vault);
            continue;
        }
        is_asked = !vault_attend(&vault);
        is_asked |= vault_bury(&vault, is_asked);
        if (!is_asked && moietyi_now_ns() - begun_ns < VAULT_SHORT_LIFE_NS)
            moietyi_nap(VAULT_NAP_NS);
    }
    for (size_t i = 0; i < vault.count; i++)
        free(vault.entries[i]); /* the exit closes the descriptors */
    free(vault.entries);
    return 0;
}
