/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "bench/heaps/subject.h"

#include "bench/base/device.h"
#include "pool/driver/driver_table.h"

static struct heap_machine *machine;
static struct heap_rules rules;
static struct heap_figures figures;

static void *record(uint32_t stream)
{
    const struct moietyi_driver *driver = moietyi_driver_opened();
    CUevent event = NULL;
    if (driver->cuEventCreate(&event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS)
        return NULL;
    if (driver->cuEventRecord(event, bench_device_streams[stream]) ==
        CUDA_SUCCESS)
        return event;
    (void)driver->cuEventDestroy(event);
    return NULL;
}

static bool is_over(void *event)
{
    return moietyi_driver_opened()->cuEventQuery(event) == CUDA_SUCCESS;
}

static void forget(void *event)
{
    (void)moietyi_driver_opened()->cuEventDestroy(event);
}

static const char *start(const struct subject_setup *setup)
{
    const struct heap_device device = {setup->stream_count, record, is_over,
                                       forget};
    const char *why = setup->stream_count > BENCH_STREAMS_MAX
                          ? "the trace has more than 1024 streams"
                          : bench_device_start(setup->stream_count);
    if (why)
        return why;
    machine = heap_create(&rules, &device);
    if (machine)
        return NULL;
    bench_device_stop();
    return "there is no host memory";
}

static uint64_t alloc(uint32_t thread, size_t size_bytes, uint32_t stream)
{
    return heap_alloc(machine, thread, size_bytes, stream);
}

static void free_block(uint32_t thread, uint64_t address, size_t size_bytes,
                       uint32_t stream)
{
    (void)size_bytes;
    heap_free(machine, thread, address,
              stream == SUBJECT_STREAM_ANY    ? HEAP_STREAM_ANY
              : stream == SUBJECT_STREAM_DONE ? HEAP_STREAM_DONE
                                              : stream);
}

static void measure(struct subject_memory *out)
{
    heap_measure(machine, &figures);
    *out = (struct subject_memory){
        .handed_bytes = figures.handed_bytes,
        .cached_bytes = figures.cached_bytes,
        .retiring_bytes = figures.waiting_bytes,
        .reserved_bytes = figures.reserved_bytes,
        .driver_calls = figures.growth_count + figures.move_count,
    };
}

static uint64_t reserved_bytes(void)
{
    return heap_reserved_bytes(machine);
}

static void stop(void)
{
    heap_measure(machine, &figures);
    heap_destroy(machine);
    bench_device_stop();
}

const struct subject *heap_subject(const struct heap_rules *wanted)
{
    static const struct subject subject = {
        .name = "heaps",
        .description = "the model of heaps",
        .needs_driver = true,
        .keeps_any = true,
        .start = start,
        .attach = bench_device_attach,
        .alloc = alloc,
        .free = free_block,
        .reserved_bytes = reserved_bytes,
        .measure = measure,
        .stop = stop,
    };
    rules = *wanted;
    return &subject;
}

const struct heap_figures *heap_subject_figures(void)
{
    return &figures;
}
