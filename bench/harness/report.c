/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "bench/harness/report.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>

#include "bench/base/json.h"
#include "bench/base/numbers.h"

/* The numbers of a measurement that are given as the median over processes. */
static const struct {
    const char *key;
    size_t offset_bytes;
} numbers[] = {
    {"ns_per_op_median", offsetof(struct measurement, op_median)},
    {"ns_per_op_p99", offsetof(struct measurement, op_p99)},
    {"ns_per_op_p999", offsetof(struct measurement, op_p999)},
    {"ns_per_op_mean", offsetof(struct measurement, op_mean)},
    {"ns_per_call_p99", offsetof(struct measurement, call_p99)},
    {"ns_per_call_p999", offsetof(struct measurement, call_p999)},
};

#define NUMBER_COUNT (sizeof(numbers) / sizeof(numbers[0]))

static double number_of(const struct measurement *measurement,
                        size_t offset_bytes)
{
    return *(const double *)((const char *)measurement + offset_bytes);
}

/* One number of every process, in order. */
static void sorted(const struct finding *finding, size_t offset_bytes,
                   double *out)
{
    for (uint32_t i = 0; i < finding->count; i++)
        out[i] = number_of(&finding->of_process[i], offset_bytes);
    numbers_sort(out, finding->count);
}

/* `value` NAN: there is none. */
static void write_number(FILE *file, const char *key, const char *suffix,
                         double value, int digits)
{
    if (isnan(value))
        (void)fprintf(file, ",\"%s%s\":null", key, suffix);
    else
        (void)fprintf(file, ",\"%s%s\":%.*f", key, suffix, digits, value);
}

static double median(const struct finding *finding, size_t offset_bytes,
                     double *scratch)
{
    if (finding->count == 0)
        return NAN;
    sorted(finding, offset_bytes, scratch);
    return numbers_median(scratch, finding->count);
}

static void write_numbers(FILE *file, const struct finding *finding,
                          double *scratch)
{
    for (size_t i = 0; i < NUMBER_COUNT; i++)
        write_number(file, numbers[i].key, "",
                     median(finding, numbers[i].offset_bytes, scratch), 2);
    bool has_any = !isnan(median(finding, numbers[0].offset_bytes, scratch));
    write_number(file, numbers[0].key, "_min", has_any ? scratch[0] : NAN, 2);
    write_number(file, numbers[0].key, "_max",
                 has_any ? scratch[finding->count - 1] : NAN, 2);
    double rate =
        median(finding, offsetof(struct measurement, cache_hit_rate), scratch);
    write_number(file, "cache_hit_rate", "", rate < 0 ? NAN : rate, 4);
}

static void write_quality(FILE *file, const struct finding *finding)
{
    uint64_t ops = 0;
    uint64_t discarded = 0;
    uint64_t cell_us = 0; /* the least */
    bool is_clean = finding->count > 0;
    bool is_pinned = finding->count > 0;
    for (uint32_t i = 0; i < finding->count; i++) {
        ops += finding->of_process[i].ops;
        discarded += finding->of_process[i].discarded;
        is_clean &= finding->of_process[i].is_clean;
        is_pinned &= finding->of_process[i].is_pinned;
        if (i == 0 || finding->of_process[i].cell_us < cell_us)
            cell_us = finding->of_process[i].cell_us;
    }
    (void)fprintf(file,
                  ",\"repeats\":%" PRIu32 ",\"ops\":%" PRIu64
                  ",\"preempted_repetitions_discarded\":%" PRIu64
                  ",\"cell_us\":%" PRIu64,
                  finding->count, ops, discarded, cell_us);
    json_flag_field(file, "clean", is_clean);
    json_flag_field(file, "pinned", is_pinned);
}

static void write_circumstances(FILE *file, const struct matrix *matrix,
                                const struct machine *machine,
                                const struct matrix_subject *entry)
{
    (void)fprintf(file, ",\"seed\":%" PRIu64 ",\"streams\":%" PRIu32,
                  matrix->options->seed, matrix->options->streams);
    json_text_field(file, "lag", matrix->options->lag.text);
    json_flag_field(file, "host_memory", entry->subject->has_host_memory);
    json_text_field(file, "driver", *entry->driver ? entry->driver : "unknown");
    json_flag_field(file, "is_standin", entry->is_standin);
    json_flag_field(file, "simulated_costs", entry->is_simulated);
    json_text_field(file, "cpu", machine->cpu);
    (void)fprintf(file, ",\"processors\":%ld", machine->processor_count);
    json_text_field(file, "commit", machine->commit);
}

/* The beginning of an object, without its end. */
static void write_row(FILE *file, const struct matrix *matrix,
                      const struct machine *machine, uint32_t subject_index,
                      const struct plan_cell *cell,
                      const struct finding *finding, double *scratch)
{
    const struct matrix_subject *entry = &matrix->subjects[subject_index];
    (void)fprintf(file,
                  "{\"workload\":\"%s\",\"subject\":\"%s\",\"threads\":%u"
                  ",\"size_bytes\":%zu",
                  cell->workload->name, entry->subject->name,
                  cell->thread_count, cell->size_bytes);
    write_numbers(file, finding, scratch);
    write_quality(file, finding);
    if (*finding->why)
        json_text_field(file, "failure", finding->why);
    else
        (void)fputs(",\"failure\":null", file);
    write_circumstances(file, matrix, machine, entry);
}

uint32_t report_write(FILE *file, const struct matrix *matrix,
                      const struct machine *machine)
{
    uint32_t measured = 0;
    double *scratch = calloc(matrix->options->repeats, sizeof(*scratch));
    if (!scratch)
        return 0;
    for (uint32_t c = 0; c < matrix->plan->cell_count; c++) {
        for (uint32_t s = 0; s < matrix->options->subject_count; s++) {
            const struct finding *finding = matrix_finding(matrix, s, c);
            measured += finding->count > 0;
            if (finding->count == 0 && !*finding->why)
                continue;
            write_row(file, matrix, machine, s, &matrix->plan->cells[c],
                      finding, scratch);
            (void)fputs("}\n", file);
        }
    }
    free(scratch);
    return measured;
}

void report_write_last(FILE *file, const struct matrix *matrix,
                       const struct machine *machine, uint32_t subject_index,
                       uint32_t cell_index)
{
    const struct finding *all =
        matrix_finding(matrix, subject_index, cell_index);
    struct finding last = {.of_process = &all->of_process[all->count - 1],
                           .count = 1};
    double scratch;
    write_row(file, matrix, machine, subject_index,
              &matrix->plan->cells[cell_index], &last, &scratch);
    (void)fprintf(file, ",\"process\":%" PRIu32 "}\n", all->count);
    (void)fflush(file);
}
