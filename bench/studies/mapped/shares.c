/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Mapped memory that another process uses, on the same device and on another:
 * what each finds there, how fast copies and imports are, and what is left when
 * either is killed. --help says what is printed.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/base/clock.h"
#include "bench/base/command_line.h"
#include "bench/studies/mapped/copies.h"
#include "bench/studies/mapped/must.h"
#include "moiety/ipc.h"
#include "moiety/moiety.h"
#include "pool/driver/driver_table.h"

#define MIB (UINT64_C(1) << 20)
#define OWNERS_DEVICE 0
#define FREE_WAIT_NS UINT64_C(5000000000)

static const char help[] =
    "usage: shares [--part=P] [--device=N] [--mib=N] [--imports=N] "
    "[--driver=D]\n"
    "  --part=P     used, owner-killed or importer-killed (default: all)\n"
    "  --device=N   of the importer, 0 to 63 (default 0); the owner's is 0\n"
    "  --mib=N      size of the block, 2 to 65536 (default 1024)\n"
    "  --imports=N  of memory that is there already, 1 to 100000 (default "
    "1000)\n"
    "  --driver=D   auto, cuda, standin or a path with a / in it (default:\n"
    "               what MOIETY_DRIVER says)\n"
    "\n"
    "A process sends a block of a mapped pool to another one. Prints, as JSON\n"
    "Lines:\n"
    "used             wrong words that the importer finds, and that the owner\n"
    "                 finds when the importer has written; ms of the receipt;\n"
    "                 mean ns of an import by a ticket; GB/s of copies to and\n"
    "                 from memory of the importer's device, and of the same\n"
    "                 copies of cuMemAlloc's memory\n"
    "owner-killed     wrong words that the importer finds after that\n"
    "importer-killed  wrong words that the owner finds after that; then the\n"
    "                 block's memory must be free again\n"
    "\n"
    "exit status: 0 all well; 1 a wrong word, or something failed; 2 bad\n"
    "argument\n";

static struct {
    const struct moietyi_driver *driver;
    CUcontext context;
    CUstream stream;
    uint64_t device;
    uint64_t mib;
    uint64_t imports;
    uint32_t *words; /* of the host, as many as the block has */
    int memory;      /* the socket that it travels on */
    int turn;        /* one for words between the two */
} study = {.mib = 1024, .imports = 1000};

static size_t block_bytes(void)
{
    return study.mib * MIB;
}

/* --- the turn of the other --- */

static void tell(const void *bytes, size_t count)
{
    must_hold(write(study.turn, bytes, count) == (ssize_t)count, "it hears");
}

/* False: the other one is gone. */
static bool hear(void *out, size_t count)
{
    return recv(study.turn, out, count, MSG_WAITALL) == (ssize_t)count;
}

static void pass_turn(void)
{
    tell("", 1);
}

static void await_turn(void)
{
    char byte;
    must_hold(hear(&byte, 1), "the other one goes on");
}

static void await_end(void)
{
    char byte;
    must_hold(!hear(&byte, 1), "the other one was killed");
}

static void die(void)
{
    (void)raise(SIGKILL);
}

/* --- memory --- */

static void open_device(uint64_t ordinal)
{
    CUdevice device;
    must_be(moietyi_driver_open(&study.driver));
    MUST(cuInit, (0));
    MUST(cuDeviceGet, (&device, (int)ordinal));
    MUST(cuDevicePrimaryCtxRetain, (&study.context, device));
    MUST(cuCtxSetCurrent, (study.context));
    MUST(cuStreamCreate, (&study.stream, CU_STREAM_NON_BLOCKING));
    study.words = malloc(block_bytes());
    must_hold(study.words, "there is memory for the words");
}

/* Word i of the block is `first` + i. */
static void write_words(moiety_devptr block, uint32_t first)
{
    size_t count = block_bytes() / sizeof(uint32_t);
    for (size_t i = 0; i < count; i++)
        study.words[i] = first + (uint32_t)i;
    MUST(cuMemcpyHtoDAsync, (block, study.words, block_bytes(), study.stream));
    MUST(cuStreamSynchronize, (study.stream));
}

static uint64_t wrong_words(moiety_devptr block, uint32_t first)
{
    uint64_t wrong = 0;
    size_t count = block_bytes() / sizeof(uint32_t);
    memset(study.words, 0, block_bytes());
    MUST(cuMemcpyDtoHAsync, (study.words, block, block_bytes(), study.stream));
    MUST(cuStreamSynchronize, (study.stream));
    for (size_t i = 0; i < count; i++)
        wrong += study.words[i] != first + (uint32_t)i;
    return wrong;
}

static size_t free_bytes(void)
{
    size_t available;
    size_t total;
    MUST(cuMemGetInfo, (&available, &total));
    return available;
}

/* The driver may take its time after a process that was killed. */
static void await_free(size_t bytes)
{
    uint64_t end_ns = clock_now_ns() + FREE_WAIT_NS;
    while (free_bytes() < bytes)
        must_hold(clock_now_ns() < end_ns, "the memory is free again");
}

static void print_end(const char *part, uint64_t wrong)
{
    (void)printf("{\"kind\":\"shares\",\"part\":\"%s\",\"device\":%" PRIu64
                 ",\"bytes\":%zu,\"wrong_words\":%" PRIu64 "}\n",
                 part, study.device, block_bytes(), wrong);
    must_hold(wrong == 0, "all words are right");
}

/* --- the owner --- */

struct owner {
    moiety_pool *pool;
    moiety_devptr block;
};

static void owner_begin(struct owner *owner)
{
    moiety_pool_options options = MOIETY_POOL_OPTIONS_INIT;
    options.memory = MOIETY_MEMORY_MAPPED;
    options.flags = MOIETY_POOL_EXPORTABLE;
    open_device(OWNERS_DEVICE);
    must_be(moiety_pool_create(&options, &owner->pool));
    must_be(moiety_alloc(owner->pool, block_bytes(), MOIETY_STREAM_DONE,
                         &owner->block));
    write_words(owner->block, 1);
    must_be(moiety_ipc_send(owner->pool, owner->block, study.memory));
    pass_turn();
}

/* The importer has nothing of it any more. */
static void owner_end(struct owner *owner)
{
    must_be(moiety_ipc_release_exports(owner->pool, 0));
    must_be(moiety_free(owner->pool, owner->block, MOIETY_STREAM_DONE));
    must_be(moiety_pool_destroy(owner->pool, NULL));
}

static void own_used(void)
{
    struct owner owner;
    moiety_ipc_handle ticket;
    owner_begin(&owner);
    must_be(moiety_ipc_ticket(owner.pool, owner.block + MIB, &ticket));
    tell(&ticket, sizeof(ticket));
    await_turn();
    uint64_t wrong = wrong_words(owner.block, 2);
    pass_turn();
    await_turn();
    owner_end(&owner);
    print_end("used, by the owner", wrong);
}

static void own_until_killed(void)
{
    struct owner owner;
    owner_begin(&owner);
    await_turn();
    die();
}

static void own_after_the_other(void)
{
    struct owner owner;
    owner_begin(&owner);
    await_end();
    uint64_t wrong = wrong_words(owner.block, 2);
    size_t free_before = free_bytes();
    owner_end(&owner);
    print_end("importer-killed", wrong);
    await_free(free_before + block_bytes());
}

/* --- the importer --- */

static double ms_since(uint64_t begun_ns)
{
    return (double)(clock_now_ns() - begun_ns) / 1e6;
}

static moiety_devptr receive(double *out_ms)
{
    moiety_devptr block;
    open_device(study.device);
    await_turn();
    uint64_t begun_ns = clock_now_ns();
    must_be(moiety_ipc_receive(study.memory, study.context, NULL, &block));
    *out_ms = ms_since(begun_ns);
    return block;
}

static void give_up(moiety_devptr block)
{
    uint32_t open_count;
    must_be(moiety_ipc_close(block, study.stream, NULL));
    must_be(moiety_ipc_trim(0, &open_count));
    must_hold(open_count == 0, "nothing is open");
}

/* Mean ns, of what is there already, for the context that is current. */
static double import_ns(const moiety_ipc_handle *ticket, moiety_devptr address)
{
    uint64_t begun_ns = clock_now_ns();
    for (uint64_t i = 0; i < study.imports; i++) {
        moiety_devptr found;
        must_be(moiety_ipc_import(ticket, sizeof(*ticket), NULL, &found));
        must_hold(found == address, "a ticket leads to its address");
    }
    uint64_t ended_ns = clock_now_ns();
    for (uint64_t i = 0; i < study.imports; i++)
        must_be(moiety_ipc_close(address, MOIETY_STREAM_DONE, NULL));
    return (double)(ended_ns - begun_ns) / (double)study.imports;
}

static double copy_speed(CUdeviceptr to, CUdeviceptr from)
{
    return copies_speed(study.driver, study.stream, to, from, block_bytes());
}

/* cuMemAlloc's, on the owner's device, for this process's context. */
static CUdeviceptr plain_block(void)
{
    CUdevice device;
    CUcontext context;
    CUdeviceptr block;
    MUST(cuDeviceGet, (&device, OWNERS_DEVICE));
    MUST(cuDevicePrimaryCtxRetain, (&context, device));
    MUST(cuCtxSetCurrent, (context));
    MUST(cuMemAlloc, (&block, block_bytes()));
    MUST(cuCtxSetCurrent, (study.context));
    if (context != study.context)
        MUST(cuCtxEnablePeerAccess, (context, 0));
    return block;
}

static void print_copies(moiety_devptr shared)
{
    CUdeviceptr own;
    CUdeviceptr plain = plain_block();
    MUST(cuMemAlloc, (&own, block_bytes()));
    double from = copy_speed(own, shared);
    double to = copy_speed(shared, own);
    double plain_from = copy_speed(own, plain);
    double plain_to = copy_speed(plain, own);
    (void)printf(",\"from_shared\":%.1f,\"to_shared\":%.1f"
                 ",\"from_cuMemAlloc\":%.1f,\"to_cuMemAlloc\":%.1f",
                 from, to, plain_from, plain_to);
    MUST(cuMemFree, (plain));
    MUST(cuMemFree, (own));
}

static void import_used(void)
{
    moiety_ipc_handle ticket;
    double receipt_ms;
    moiety_devptr block = receive(&receipt_ms);
    must_hold(hear(&ticket, sizeof(ticket)), "a ticket arrives");
    uint64_t wrong = wrong_words(block, 1);
    write_words(block, 2);
    pass_turn();
    await_turn();
    (void)printf("{\"kind\":\"shares\",\"part\":\"used\",\"device\":%" PRIu64
                 ",\"bytes\":%zu,\"wrong_words\":%" PRIu64
                 ",\"receipt_ms\":%.3f,\"import_ns\":%.0f",
                 study.device, block_bytes(), wrong, receipt_ms,
                 import_ns(&ticket, block + MIB));
    print_copies(block);
    (void)printf("}\n");
    give_up(block);
    pass_turn();
    must_hold(wrong == 0, "all words are right");
}

static void import_after_the_other(void)
{
    double receipt_ms;
    moiety_devptr block = receive(&receipt_ms);
    pass_turn();
    await_end();
    uint64_t wrong = wrong_words(block, 1);
    write_words(block, 3);
    wrong += wrong_words(block, 3);
    give_up(block);
    print_end("owner-killed", wrong);
}

static void import_until_killed(void)
{
    double receipt_ms;
    moiety_devptr block = receive(&receipt_ms);
    write_words(block, 2);
    die();
}

/* --- both --- */

static const struct part {
    const char *name;
    void (*own)(void);
    void (*import)(void);
    int signals[2]; /* that the owner and the importer end by */
} parts[] = {
    {"used", own_used, import_used, {0, 0}},
    {"owner-killed", own_until_killed, import_after_the_other, {SIGKILL, 0}},
    {"importer-killed", own_after_the_other, import_until_killed, {0, SIGKILL}},
    {NULL, NULL, NULL, {0, 0}},
};

static bool is_part(const char *name, void *into)
{
    const struct part **out = into;
    for (*out = parts; (*out)->name; (*out)++)
        if (strcmp((*out)->name, name) == 0)
            return true;
    return false;
}

/* This process has no driver yet, so a fork may open one. */
static pid_t start(void (*side)(void), const int ends[2], const int others[2])
{
    pid_t child = fork();
    if (child != 0)
        return child;
    (void)close(others[0]);
    (void)close(others[1]);
    study.memory = ends[0];
    study.turn = ends[1];
    side();
    exit(0);
}

static bool has_ended(pid_t child, int signal)
{
    int status;
    if (child < 0 || waitpid(child, &status, 0) != child)
        return false;
    return signal ? WIFSIGNALED(status) && WTERMSIG(status) == signal
                  : WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static bool run_part(const struct part *part)
{
    int memory[2];
    int turn[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, memory) != 0 ||
        socketpair(AF_UNIX, SOCK_STREAM, 0, turn) != 0) {
        perror("shares: socketpair");
        return false;
    }
    const int ends[2][2] = {{memory[0], turn[0]}, {memory[1], turn[1]}};
    pid_t owner = start(part->own, ends[0], ends[1]);
    pid_t importer = start(part->import, ends[1], ends[0]);
    for (unsigned i = 0; i < 2; i++) {
        (void)close(memory[i]);
        (void)close(turn[i]);
    }
    bool owner_is_well = has_ended(owner, part->signals[0]);
    return has_ended(importer, part->signals[1]) && owner_is_well;
}

/* `only` NULL: all parts. */
static int run(const struct part *only)
{
    bool is_well = true;
    for (const struct part *part = parts; part->name; part++)
        if (!only || only == part)
            is_well = run_part(part) && is_well;
    return is_well ? 0 : 1;
}

int main(int argc, char **argv)
{
    const char *driver = NULL;
    bool is_help = false;
    const struct part *only = NULL;
    const struct command_option options[] = {
        {"part", .read = is_part, .into = &only,
         .refusal = " is none of used, owner-killed, importer-killed"},
        {"device", 0, 63, .number = &study.device},
        {"mib", 2, 65536, .number = &study.mib},
        {"imports", 1, 100000, .number = &study.imports},
        {"driver", .text = &driver},
        {"help", .is_given = &is_help},
        {.name = NULL},
    };
    const struct command_line line = {"shares: bad argument", NULL, options,
                                      false};
    if (command_line_read(&line, argc, argv) < 0)
        return 2;
    if (is_help)
        return fputs(help, stdout) < 0;
    return command_line_use_driver(driver) ? run(only) : 1;
}
