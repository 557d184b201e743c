/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "bench/report.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>

#include "bench/machine.h"

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

static double number_of(const struct measurement *measurement,
                        size_t offset_bytes)
{
    return *(const double *)((const char *)measurement + offset_bytes);
}

static int compare(const void *left, const void *right)
{
    double a = *(const double *)left;
    double b = *(const double *)right;
    return (a > b) - (a < b);
}

/* One number of every process, in order. */
static void sorted(const struct finding *finding, size_t offset_bytes,
                   double *out)
{
    for (uint32_t i = 0; i < finding->count; i++)
        out[i] = number_of(&finding->of_process[i], offset_bytes);
    qsort(out, finding->count, sizeof(*out), compare);
}

static double middle(const double *values, uint32_t count)
{
    return (values[(count - 1) / 2] + values[count / 2]) / 2;
}

static void write_text(FILE *file, const char *key, const char *text)
{
    (void)fprintf(file, ",\"%s\":\"", key);
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            (void)fputc('\\', file);
        if ((unsigned char)*text >= ' ')
            (void)fputc(*text, file);
    }
    (void)fputc('"', file);
}

static void write_flag(FILE *file, const char *key, bool is_set)
{
    (void)fprintf(file, ",\"%s\":%s", key, is_set ? "true" : "false");
}

static void write_numbers(FILE *file, const struct finding *finding,
                          double *scratch)
{
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        sorted(finding, numbers[i].offset_bytes, scratch);
        (void)fprintf(file, ",\"%s\":%.2f", numbers[i].key,
                      middle(scratch, finding->count));
    }
    sorted(finding, numbers[0].offset_bytes, scratch);
    (void)fprintf(file,
                  ",\"ns_per_op_median_min\":%.2f"
                  ",\"ns_per_op_median_max\":%.2f",
                  scratch[0], scratch[finding->count - 1]);
}

static void write_quality(FILE *file, const struct finding *finding)
{
    uint64_t ops = 0;
    uint64_t discarded = 0;
    bool is_clean = true;
    bool is_pinned = true;
    for (uint32_t i = 0; i < finding->count; i++) {
        ops += finding->of_process[i].ops;
        discarded += finding->of_process[i].discarded;
        is_clean &= finding->of_process[i].is_clean;
        is_pinned &= finding->of_process[i].is_pinned;
    }
    (void)fprintf(file,
                  ",\"repeats\":%" PRIu32 ",\"ops\":%" PRIu64
                  ",\"preempted_repetitions_discarded\":%" PRIu64,
                  finding->count, ops, discarded);
    write_flag(file, "clean", is_clean);
    write_flag(file, "pinned", is_pinned);
}

static void write_finding(FILE *file, const struct matrix *matrix,
                          const struct machine *machine, uint32_t s, uint32_t c,
                          double *scratch)
{
    const struct plan_cell *cell = &matrix->plan->cells[c];
    const struct matrix_subject *entry = &matrix->subjects[s];
    const struct finding *finding =
        &matrix->findings[(size_t)s * matrix->plan->cell_count + c];
    (void)fprintf(file,
                  "{\"workload\":\"%s\",\"subject\":\"%s\",\"threads\":%u"
                  ",\"size_bytes\":%zu",
                  cell->workload->name, entry->subject->name,
                  cell->thread_count, cell->size_bytes);
    write_numbers(file, finding, scratch);
    /* None of these subjects has a cache. */
    (void)fputs(",\"cache_hit_rate\":null", file);
    write_quality(file, finding);
    (void)fprintf(file, ",\"cell_us\":%" PRIu64 ",\"seed\":%" PRIu64,
                  matrix->cell_us, matrix->options->seed);
    write_flag(file, "host_memory", entry->subject->has_host_memory);
    write_text(file, "driver", entry->driver);
    write_flag(file, "is_standin", entry->is_standin);
    write_flag(file, "simulated_costs", entry->is_simulated);
    write_text(file, "cpu", machine->cpu);
    (void)fprintf(file, ",\"processors\":%ld", machine->processor_count);
    write_text(file, "commit", machine->commit);
    (void)fputs("}\n", file);
}

uint32_t report_write(FILE *file, const struct matrix *matrix)
{
    struct machine machine;
    uint32_t written = 0;
    double *scratch = calloc(matrix->options->repeats, sizeof(*scratch));
    if (!scratch)
        return 0;
    machine_describe(matrix->options->commit, &machine);
    for (uint32_t c = 0; c < matrix->plan->cell_count; c++) {
        for (uint32_t s = 0; s < matrix->options->subject_count; s++) {
            size_t at = (size_t)s * matrix->plan->cell_count + c;
            if (matrix->findings[at].count == 0)
                continue;
            write_finding(file, matrix, &machine, s, c, scratch);
            written++;
        }
    }
    free(scratch);
    return written;
}
