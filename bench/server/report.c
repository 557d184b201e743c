/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "bench/server/report.h"

#include <inttypes.h>
#include <string.h>

#include "bench/base/json.h"
#include "bench/server/introduction.h"

#define BAR_WIDTH 24

static double rate_of(const struct server_total *total)
{
    if (total->seconds <= 0)
        return 0;
    return (double)total->tally.counts.requests / total->seconds;
}

/* Of an allocation and its free; the phases end with as many of both. */
static double pair_ns_of(const struct server_total *total)
{
    const struct server_counts *counts = &total->tally.counts;
    return counts->allocs ? (double)counts->alloc_ns / (double)counts->allocs
                          : 0;
}

/* The part of the threads' time that went into them. */
static double share_of(const struct server_total *total)
{
    const struct server_counts *counts = &total->tally.counts;
    return counts->serving_ns
               ? (double)counts->alloc_ns / (double)counts->serving_ns
               : 0;
}

static double quantile_ms(const struct server_total *total, double part)
{
    return histogram_quantile_ns(&total->tally.latency, part) / 1e6;
}

static double call_ns(const struct histogram *calls, double part)
{
    return histogram_quantile_ns(calls, part);
}

static double best_rate(const struct server_total *totals, unsigned count)
{
    double best = 0;
    for (unsigned i = 0; i < count; i++)
        if (rate_of(&totals[i]) > best)
            best = rate_of(&totals[i]);
    return best;
}

static void print_requests(const struct server_total *totals, unsigned count)
{
    double best = best_rate(totals, count);
    printf("\n%-12s %10s %-*s %8s %8s %9s\n", "", "requests/s", BAR_WIDTH, "",
           "p50 ms", "p99 ms", "memory");
    for (unsigned i = 0; i < count; i++) {
        double rate = rate_of(&totals[i]);
        char bar[BAR_WIDTH + 1] = "";
        int length = best > 0 ? (int)(rate / best * BAR_WIDTH + 0.5) : 0;
        memset(bar, '#', (size_t)length);
        printf("%-12s %10.0f %-*s %8.3f %8.3f %5.0f MiB\n",
               totals[i].subject->name, rate, BAR_WIDTH, bar,
               quantile_ms(&totals[i], 0.50), quantile_ms(&totals[i], 0.99),
               (double)totals[i].peak_bytes / (double)(1U << 20));
    }
}

static void print_calls(const struct server_total *totals, unsigned count)
{
    printf("\n%-12s %10s %8s %9s %8s %9s %8s\n", "ns per call", "alloc p50",
           "p99", "free p50", "p99", "both mean", "of time");
    for (unsigned i = 0; i < count; i++) {
        const struct server_calls *calls = &totals[i].calls;
        printf("%-12s %10.0f %8.0f %9.0f %8.0f %9.0f %6.2f %%\n",
               totals[i].subject->name, call_ns(&calls->allocs, 0.50),
               call_ns(&calls->allocs, 0.99), call_ns(&calls->frees, 0.50),
               call_ns(&calls->frees, 0.99), pair_ns_of(&totals[i]),
               100 * share_of(&totals[i]));
    }
}

/* The first subject is the one that is compared with the others. */
static void print_ratios(const struct server_total *totals, unsigned count)
{
    for (unsigned i = 1; i < count; i++)
        if (rate_of(&totals[i]) > 0 && pair_ns_of(&totals[i]) > 0)
            printf("%s against %s: %.2f times the requests, %.3g times the "
                   "time to allocate\n",
                   totals[0].subject->name, totals[i].subject->name,
                   rate_of(&totals[0]) / rate_of(&totals[i]),
                   pair_ns_of(&totals[0]) / pair_ns_of(&totals[i]));
}

static void print_notes(const struct server_options *options,
                        const moiety_caps *caps,
                        const struct server_outcome *outcome)
{
    const struct server_total *totals = outcome->totals;
    uint64_t checked_bytes = 0;
    for (unsigned i = 0; i < options->subject_count; i++) {
        checked_bytes += totals[i].tally.counts.checked_bytes;
        if (totals[i].story[0])
            printf("%s: %s\n", totals[i].subject->name, totals[i].story);
    }
    printf("checked: %" PRIu64 " bytes of responses\n", checked_bytes);
    server_staging_print(&outcome->staging, caps, options->device);
    puts("Each thread serves one request after another: the latency has no "
         "queue in it.\nMemory is the most that was taken from the driver. The "
         "calls are without the\nclock's own time; \"both mean\" is an "
         "allocation and its free, growth included,\nand \"of time\" their "
         "part of the threads' time.\nStaging is the same for all: its calls "
         "are in the latency and in the threads'\ntime, and nobody's.");
    if (caps->is_standin)
        puts("No GPU was used: the rows may be compared, but no number is a "
             "GPU's.");
}

void server_report_print(const struct server_options *options,
                         const moiety_caps *caps,
                         const struct server_outcome *outcome)
{
    const struct server_total *totals = outcome->totals;
    print_requests(totals, options->subject_count);
    print_calls(totals, options->subject_count);
    puts("");
    print_ratios(totals, options->subject_count);
    print_notes(options, caps, outcome);
}

static void write_counts(FILE *file, const struct server_counts *counts)
{
    (void)fprintf(file,
                  ",\"requests\":%" PRIu64 ",\"allocs\":%" PRIu64
                  ",\"frees\":%" PRIu64 ",\"handed_over\":%" PRIu64
                  ",\"checked_bytes\":%" PRIu64 ",\"wrong_bytes\":%" PRIu64,
                  counts->requests, counts->allocs, counts->frees,
                  counts->handed_over, counts->checked_bytes,
                  counts->wrong_bytes);
}

static void write_times(FILE *file, const struct server_total *total)
{
    const struct server_calls *calls = &total->calls;
    (void)fprintf(file,
                  ",\"seconds\":%.6f,\"requests_per_second\":%.2f"
                  ",\"latency_ms_p50\":%.6f,\"latency_ms_p99\":%.6f",
                  total->seconds, rate_of(total), quantile_ms(total, 0.50),
                  quantile_ms(total, 0.99));
    (void)fprintf(file,
                  ",\"alloc_ns_p50\":%.2f,\"alloc_ns_p99\":%.2f"
                  ",\"free_ns_p50\":%.2f,\"free_ns_p99\":%.2f"
                  ",\"pair_ns_mean\":%.2f,\"alloc_time_share\":%.6f",
                  call_ns(&calls->allocs, 0.50), call_ns(&calls->allocs, 0.99),
                  call_ns(&calls->frees, 0.50), call_ns(&calls->frees, 0.99),
                  pair_ns_of(total), share_of(total));
}

static void write_staging(FILE *file, const struct server_staging_facts *facts)
{
    const moiety_host_stats *stats = &facts->stats;
    json_text_field(file, "staging_place", facts->place);
    (void)fprintf(file,
                  ",\"staging_bytes\":%" PRIu64 ",\"staging_pages\":%" PRIu64
                  ",\"staging_pages_near\":%" PRIu64
                  ",\"staging_pages_elsewhere\":%" PRIu64
                  ",\"staging_lost_bytes\":%" PRIu64,
                  stats->pinned_bytes, stats->pages_asked, stats->pages_near,
                  stats->pages_elsewhere, facts->lost_bytes);
    json_text_field(file, "staging_page_kind", server_staging_page_kind(stats));
}

static void write_total(FILE *file, const struct server_options *options,
                        const moiety_caps *caps,
                        const struct server_total *total,
                        const struct server_staging_facts *staging)
{
    (void)fprintf(file, "{\"subject\":\"%s\",\"threads\":%u,\"seed\":%" PRIu64,
                  total->subject->name, options->thread_count, options->seed);
    write_counts(file, &total->tally.counts);
    write_times(file, total);
    (void)fprintf(file, ",\"peak_bytes\":%" PRIu64 ",\"lost_bytes\":%" PRIu64,
                  total->peak_bytes, total->lost_bytes);
    write_staging(file, staging);
    json_text_field(file, "device", caps->device_name);
    json_text_field(file, "driver", caps->library_path);
    (void)fprintf(file, ",\"is_standin\":%s,\"simulated_costs\":%s}\n",
                  caps->is_standin ? "true" : "false",
                  server_is_simulated(caps) ? "true" : "false");
}

void server_report_write(FILE *file, const struct server_options *options,
                         const moiety_caps *caps,
                         const struct server_outcome *outcome)
{
    for (unsigned i = 0; i < options->subject_count; i++)
        write_total(file, options, caps, &outcome->totals[i],
                    &outcome->staging);
}

bool server_report_verdict(const struct server_options *options,
                           const struct server_outcome *outcome)
{
    const struct server_total *totals = outcome->totals;
    uint64_t staged_bytes = outcome->staging.lost_bytes;
    bool is_well = !staged_bytes;
    if (staged_bytes)
        (void)fprintf(stderr,
                      "*** staging: %" PRIu64 " BYTES WERE NEVER FREED ***\n",
                      staged_bytes);
    for (unsigned i = 0; i < options->subject_count; i++) {
        const char *name = options->subjects[i]->name;
        uint64_t wrong_bytes = totals[i].tally.counts.wrong_bytes;
        if (wrong_bytes)
            (void)fprintf(stderr, "*** %s: %" PRIu64 " BYTES ARE WRONG ***\n",
                          name, wrong_bytes);
        if (totals[i].lost_bytes)
            (void)fprintf(stderr,
                          "*** %s: %" PRIu64 " BYTES WERE NEVER FREED ***\n",
                          name, totals[i].lost_bytes);
        is_well = is_well && !wrong_bytes && !totals[i].lost_bytes;
    }
    return is_well;
}
