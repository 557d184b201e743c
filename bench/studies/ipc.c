/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What sharing between two processes costs a call: one exports, the other
 * imports. Prints a JSON object per line. One thread each, so it does not show
 * what contention costs; and the exporter is idle while the importer measures.
 *
 *     MOIETY_DRIVER=standin bazel run -c opt //bench:ipc
 */
#define _POSIX_C_SOURCE 200809L
#include <stdbool.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <moiety/ipc.h>
#include <moiety/moiety.h>

#include "bench/base/clock.h"
#include "bench/base/numbers.h"
#include "pool/driver/driver_table.h"

#define BLOCKS 300U /* over all segments */
#define BLOCK_BYTES ((size_t)64 << 10)
#define SEGMENT_BYTES (UINT64_C(8) << 20)
#define BATCHES 101U
#define BATCH_CALLS 3000U

struct shared {
    moiety_ipc_handle handles[BLOCKS];
};

static void must(moiety_status status, const char *what)
{
    if (status == MOIETY_OK)
        return;
    (void)fprintf(stderr, "ipc: %s: %s: %s\n", what, moiety_status_name(status),
                  moiety_last_error_message());
    _exit(1);
}

static void must_be(bool condition, const char *what)
{
    if (condition)
        return;
    perror(what);
    _exit(1);
}

static void report(const char *what, double *ns, unsigned count)
{
    const struct moietyi_driver *driver = moietyi_driver_opened();
    numbers_sort(ns, count);
    (void)printf("{\"call\": \"%s\", \"median_ns\": %.1f, \"least_ns\": %.1f, "
                 "\"most_ns\": %.1f, \"batches\": %u, \"standin\": %s}\n",
                 what, ns[count / 2], ns[0], ns[count - 1], count,
                 driver && driver->is_standin ? "true" : "false");
    (void)fflush(stdout);
}

/* Calls `body` for each of BATCH_CALLS turns, and `after` untimed. */
static void measure(const char *what, void (*body)(unsigned turn),
                    void (*after)(unsigned turn))
{
    double ns[BATCHES];
    for (unsigned batch = 0; batch < BATCHES; batch++) {
        uint64_t start_ns = clock_now_ns();
        for (unsigned turn = 0; turn < BATCH_CALLS; turn++)
            body(turn);
        ns[batch] = (double)(clock_now_ns() - start_ns) / BATCH_CALLS;
        for (unsigned turn = 0; after && turn < BATCH_CALLS; turn++)
            after(turn);
    }
    report(what, ns, BATCHES);
}

/* Makes the primary context of device 0 current. */
static void open_driver(void)
{
    const struct moietyi_driver *driver;
    CUdevice device;
    CUcontext context;
    must(moietyi_driver_open(&driver), "the driver");
    must(MOIETYI_CALL(driver, cuDeviceGet, (&device, 0)), "device 0");
    must(MOIETYI_CALL(driver, cuDevicePrimaryCtxRetain, (&context, device)),
         "its context");
    must(MOIETYI_CALL(driver, cuCtxSetCurrent, (context)), "its context");
}

/* The exporter. */

static moiety_pool *pool;
static moiety_devptr blocks[BLOCKS];
static moiety_ipc_handle handle;

static void export_block(unsigned turn)
{
    must(moiety_ipc_export(pool, blocks[turn % BLOCKS], &handle), "export");
}

static void export_inside(unsigned turn)
{
    must(moiety_ipc_export(pool, blocks[turn % BLOCKS] + BLOCK_BYTES / 2,
                           &handle),
         "export");
}

static void make_pool(void)
{
    moiety_pool_options options = {.struct_size = sizeof options,
                                   .memory = MOIETY_MEMORY_DRIVER};
    options.flags = MOIETY_POOL_EXPORTABLE;
    options.first_segment_bytes = SEGMENT_BYTES;
    options.largest_segment_bytes = SEGMENT_BYTES;
    must(moiety_pool_create(&options, &pool), "the pool");
    for (unsigned i = 0; i < BLOCKS; i++)
        must(moiety_alloc(pool, BLOCK_BYTES, MOIETY_STREAM_LEGACY, &blocks[i]),
             "a block");
}

/* All blocks; the first of each segment is slow, and reported. */
static void export_all(struct shared *shared)
{
    double ns[BLOCKS];
    unsigned first_count = 0;
    uint64_t segment_id = 0;
    for (unsigned i = 0; i < BLOCKS; i++) {
        uint64_t start_ns = clock_now_ns();
        must(moiety_ipc_export(pool, blocks[i], &shared->handles[i]), "export");
        if (shared->handles[i].segment_id != segment_id)
            ns[first_count++] = (double)(clock_now_ns() - start_ns);
        segment_id = shared->handles[i].segment_id;
    }
    report("export, first of a segment", ns, first_count);
}

static void run_exporter(int to_importer)
{
    static struct shared shared;
    int status = 0;
    open_driver();
    make_pool();
    export_all(&shared);
    measure("export", export_block, NULL);
    measure("export, inside a block", export_inside, NULL);
    must_be(write(to_importer, &shared, sizeof(shared)) ==
                (ssize_t)sizeof(shared),
            "write");
    (void)close(to_importer);
    must_be(wait(&status) > 0, "wait");
    must_be(status == 0, "the importer");
    must(moiety_ipc_release_exports(pool, 0), "release");
    for (unsigned i = 0; i < BLOCKS; i++)
        must(moiety_free(pool, blocks[i], MOIETY_STREAM_DONE), "free");
    must(moiety_pool_destroy(pool, NULL), "the pool's end");
}

/* The importer. */

static struct shared imported;
static moiety_devptr addresses[BATCH_CALLS];

static void import_block(unsigned turn)
{
    must(moiety_ipc_import(&imported.handles[turn % BLOCKS],
                           sizeof(imported.handles[0]), NULL, &addresses[turn]),
         "import");
}

static void close_block(unsigned turn)
{
    moiety_closing closing;
    must(moiety_ipc_close(addresses[turn], MOIETY_STREAM_DONE, &closing),
         "close");
}

static void import_and_close(unsigned turn)
{
    import_block(turn);
    close_block(turn);
}

static void import_and_close_on_a_stream(unsigned turn)
{
    import_block(turn);
    must(moiety_ipc_close(addresses[turn], MOIETY_STREAM_LEGACY, NULL),
         "close");
}

/* What the driver does, a segment at a time. */
static void open_and_trim(void)
{
    double open_ns[BATCHES];
    double trim_ns[BATCHES];
    for (unsigned i = 0; i < BATCHES; i++) {
        uint64_t start_ns = clock_now_ns();
        import_block(0);
        open_ns[i] = (double)(clock_now_ns() - start_ns);
        close_block(0);
        start_ns = clock_now_ns();
        must(moiety_ipc_trim(0, NULL), "trim");
        trim_ns[i] = (double)(clock_now_ns() - start_ns);
    }
    report("import, first of a segment", open_ns, BATCHES);
    report("trim of a segment", trim_ns, BATCHES);
}

static void run_importer(int from_exporter)
{
    size_t length = 0;
    while (length < sizeof(imported)) {
        ssize_t got = read(from_exporter, (char *)&imported + length,
                           sizeof(imported) - length);
        must_be(got > 0, "read");
        length += (size_t)got;
    }
    open_driver();
    open_and_trim();
    measure("import, segment open", import_block, close_block);
    measure("import and close, nothing pending", import_and_close, NULL);
    measure("import and close behind a stream", import_and_close_on_a_stream,
            NULL);
    must(moiety_ipc_trim(0, NULL), "trim");
}

int main(void)
{
    int ends[2];
    must_be(pipe(ends) == 0, "pipe");
    /* Before either of them touches the driver. */
    pid_t child = fork();
    must_be(child >= 0, "fork");
    if (child == 0) {
        (void)close(ends[1]);
        run_importer(ends[0]);
    } else {
        (void)close(ends[0]);
        run_exporter(ends[1]);
    }
    return 0;
}
