/*
 * SPDX-License-Identifier: Apache-2.0
 */
#define _GNU_SOURCE
#include "bench/replay/row.h"

#include <inttypes.h>
#include <string.h>

#include "bench/base/json.h"
#include "bench/replay/circumstances.h"
#include "bench/replay/json.h"

static void write_number(FILE *file, const char *key, uint64_t number)
{
    (void)fprintf(file, ",\"%s\":", key);
    json_number(file, number);
}

static void write_trace(FILE *file, const char *path,
                        const struct replay_source *source)
{
    const struct replay_trace *trace = &source->trace;
    const char *slash = strrchr(path, '/');
    (void)fputs("\"trace\":{\"file\":", file);
    replay_json_text(file, slash ? slash + 1 : path);
    write_number(file, "operations", source->about.operation_count);
    write_number(file, "calls", source->about.call_count);
    write_number(file, "threads", source->about.thread_count);
    write_number(file, "streams", source->about.stream_count);
    write_number(file, "duration_ns", source->about.duration_ns);
    write_number(file, "peak_live_bytes", source->about.peak_live_bytes);
    write_number(file, "recorded_peak_reserved_bytes",
                 source->about.peak_reserved_bytes);
    (void)fputs(",\"info\":{", file);
    for (uint32_t i = 0; i < trace->info_count; i++) {
        (void)fputs(i ? "," : "", file);
        replay_json_text(file, trace->infos[i].key);
        (void)fputc(':', file);
        replay_json_text(file, trace->infos[i].text);
    }
    (void)fputs("}}", file);
}

/* Ticks were counted as if they were picoseconds. */
static double ns_of(const struct replay_timing *timing, double quantile_ns)
{
    return quantile_ns * 1000 * timing->ns_per_tick;
}

static void write_latency(FILE *file, const struct replay_timing *timing,
                          const char *key, const struct histogram *histogram)
{
    double mean = histogram->total
                      ? (double)histogram->sum_ps / (double)histogram->total
                      : 0;
    (void)fprintf(file,
                  "\"%s\":{\"count\":%" PRIu64
                  ",\"mean\":%.2f,\"median\":%.2f,\"p99\":%.2f,\"max\":%.2f}",
                  key, histogram->total, mean * timing->ns_per_tick,
                  ns_of(timing, histogram_quantile_ns(histogram, 0.5)),
                  ns_of(timing, histogram_quantile_ns(histogram, 0.99)),
                  ns_of(timing, histogram_quantile_ns(histogram, 1)));
}

/* Eight steps per doubling are enough for a picture. */
static void write_histogram(FILE *file, const struct replay_timing *timing,
                            const struct histogram *all)
{
    uint64_t count = 0;
    const char *comma = "";
    (void)fputs(",\"histogram\":[", file);
    for (uint32_t bucket = 0; bucket < HISTOGRAM_BUCKETS; bucket++) {
        uint32_t next = bucket + 1;
        count += all->count[bucket];
        if (next % (HISTOGRAM_SUB_COUNT / 8) != 0 || count == 0)
            continue;
        (void)fprintf(file, "%s[%.2f,%" PRIu64 "]", comma,
                      (double)histogram_begin_ps(next) * timing->ns_per_tick,
                      count);
        comma = ",";
        count = 0;
    }
    (void)fputs("]", file);
}

static void write_timing(FILE *file, const struct replay_timing *timing)
{
    static struct histogram all; /* too large for a stack */
    all = timing->allocs;
    histogram_merge(&all, &timing->frees);
    (void)fputs(",\"latency_ns\":{", file);
    write_latency(file, timing, "alloc", &timing->allocs);
    (void)fputc(',', file);
    write_latency(file, timing, "free", &timing->frees);
    (void)fputc(',', file);
    write_latency(file, timing, "all", &all);
    write_histogram(file, timing, &all);
    (void)fputc('}', file);
    write_number(file, "wall_ns", timing->wall_ns);
    write_number(file, "ooms", timing->ooms);
}

/* SUBJECT_UNKNOWN if one of them is; 0 rather than less. */
static uint64_t difference(uint64_t more, uint64_t less)
{
    if (more == SUBJECT_UNKNOWN || less == SUBJECT_UNKNOWN)
        return SUBJECT_UNKNOWN;
    return more > less ? more - less : 0;
}

static void write_peaks(FILE *file, const struct replay_footprint *footprint)
{
    const struct replay_sample *peak = &footprint->peak;
    write_number(file, "peak_live_bytes", footprint->peak_live_bytes);
    write_number(file, "peak_reserved_bytes", peak->memory.reserved_bytes);
    write_number(file, "waste_internal_bytes",
                 difference(peak->memory.handed_bytes, peak->live_bytes));
    write_number(
        file, "waste_external_bytes",
        difference(peak->memory.reserved_bytes, peak->memory.handed_bytes));
    write_number(file, "driver_calls", footprint->driver_calls);
}

static uint64_t column_of(const struct replay_sample *sample, size_t column)
{
    const uint64_t columns[] = {
        sample->op,
        sample->time_ns,
        sample->live_bytes,
        sample->memory.handed_bytes,
        sample->memory.cached_bytes,
        sample->memory.retiring_bytes,
        sample->memory.reserved_bytes,
    };
    return columns[column];
}

static void write_timeline(FILE *file, const struct replay_footprint *footprint)
{
    static const char *const names[] = {
        "op", "time_ns", "live", "handed", "cached", "retiring", "reserved",
    };
    (void)fputs(",\"timeline\":{", file);
    for (size_t c = 0; c < sizeof(names) / sizeof(names[0]); c++) {
        (void)fprintf(file, "%s\"%s\":[", c ? "," : "", names[c]);
        for (uint64_t i = 0; i < footprint->sample_count; i++) {
            (void)fputs(i ? "," : "", file);
            json_number(file, column_of(&footprint->samples[i], c));
        }
        (void)fputc(']', file);
    }
    (void)fputc('}', file);
}

static void write_pieces(FILE *file, const char *key,
                         const struct replay_pieces *pieces)
{
    (void)fprintf(file, ",\"%s\":[", key);
    for (size_t i = 0; i < pieces->count; i++)
        (void)fprintf(file, "%s[%" PRIu64 ",%" PRIu64 "]", i ? "," : "",
                      pieces->pieces[i].address, pieces->pieces[i].size_bytes);
    (void)fputc(']', file);
}

static void write_map(FILE *file, const struct replay_row *row)
{
    (void)fprintf(file, ",\"map\":{\"op\":%" PRIu64, row->footprint->peak.op);
    write_pieces(file, "segments", row->segments);
    write_pieces(file, "blocks", row->blocks);
    (void)fputc('}', file);
}

static void write_fit(FILE *file, const struct replay_fit *fit)
{
    write_number(file, "fit_bytes", fit->limit_bytes);
    write_number(file, "fit_tried_to_bytes", fit->tried_to_bytes);
    write_number(file, "fit_step_bytes", fit->step_bytes);
    write_number(file, "fit_tried_count", fit->tried_count);
}

static void write_findings(FILE *file, const struct replay_row *row)
{
    if (row->timing)
        write_timing(file, row->timing);
    if (row->footprint)
        write_peaks(file, row->footprint);
    write_number(file, "smallest_limit_bytes", row->smallest_limit_bytes);
    if (row->fit)
        write_fit(file, row->fit);
    if (row->options->lags.plans[0].is_held)
        write_number(file, "releases", row->releases);
    if (row->footprint && row->footprint->sample_count)
        write_timeline(file, row->footprint);
    if (row->segments && row->blocks)
        write_map(file, row);
}

void replay_row_write(FILE *file, const struct replay_row *row)
{
    const struct replay_options *options = row->options;
    (void)fputs("{\"kind\":\"replay\",", file);
    write_trace(file, row->path, row->source);
    (void)fprintf(file, ",\"subject\":\"%s\",\"mode\":\"%s\",\"lag\":\"%s\"",
                  row->subject->name,
                  options->is_concurrent ? "concurrent" : "serial",
                  options->lags.plans[0].text);
    write_number(file, "threads",
                 options->is_concurrent ? row->source->run_threads : 1);
    if (options->touch_pages)
        write_number(file, "touch_pages", options->touch_pages);
    write_number(file, "limit_bytes", options->limit_bytes);
    write_number(file, "repeat", options->repeat);
    replay_circumstances_write(file, row->subject, options->commit);
    if (row->refused) {
        (void)fputs(",\"refused\":", file);
        replay_json_text(file, row->refused);
    } else {
        write_findings(file, row);
    }
    (void)fputs("}\n", file);
}

void replay_row_write_trace(FILE *file, const char *path,
                            const struct replay_source *source)
{
    (void)fputs("{\"kind\":\"trace\",", file);
    write_trace(file, path, source);
    (void)fputs("}\n", file);
}
