/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "bench/studies/study.h"

#include <string.h>

#include "bench/base/json.h"
#include "bench/base/machine.h"
#include "bench/replay/circumstances.h"
#include "bench/replay/json.h"
#include "bench/subjects/lagging.h"
#include "bench/subjects/pool.h"

enum exit_code { EXIT_OK = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

static bool take_part(const char *name, size_t length, void *into)
{
    struct study *study = into;
    uint32_t i = 0;
    while (study->parts[i].name &&
           (strlen(study->parts[i].name) != length ||
            strncmp(study->parts[i].name, name, length) != 0))
        i++;
    if (!study->parts[i].name || study->wanted >> i & 1U)
        return false;
    study->wanted |= UINT32_C(1) << i;
    return true;
}

bool study_read_parts(const char *names, void *study)
{
    return command_line_each(names, take_part, study);
}

bool study_read_memory(const char *name, void *subjects)
{
    const char **into = subjects;
    if (strcmp(name, "fixed") == 0)
        *into = "moiety";
    else if (strcmp(name, "mapped") == 0)
        *into = "moiety-mapped";
    else
        return strcmp(name, "both") == 0;
    return true;
}

const char *study_refuse_others(const struct subject *subject)
{
    return subject_is_moiety(subject->name) ? NULL : "it is not Moiety's";
}

static bool read_subjects(const char *list, void *into)
{
    return command_line_each(list, subject_list_take, into);
}

static bool read_lags(const char *list, void *into)
{
    return lag_plans_parse(list, into);
}

static int read_options(struct study *study, int argc, char **argv)
{
    const struct command_option common[] = {
        {"subject", .read = read_subjects, .into = &study->subjects,
         .refusal = " is not accepted: names of subjects, each once at most"},
        {"seed", 1, UINT64_MAX / 16, .number = &study->seed,
         .refusal = " is not accepted: 1 to 2^60 - 1"},
        {"driver", .text = &study->driver},
        {"json", .text = &study->json_path},
        {"commit", .text = &study->commit},
        {"help", .is_given = &study->is_help},
        {"lag", .read = read_lags, .into = &study->lags,
         .refusal = " is not accepted: " LAG_ACCEPTED},
    };
    struct command_option options[COMMAND_OPTIONS_MAX] = {{.name = NULL}};
    size_t count = sizeof(common) / sizeof(common[0]) - !study->has_lag;
    memcpy(options, common, count * sizeof(common[0]));
    for (size_t i = 0; study->options[i].name; i++)
        options[count++] = study->options[i];
    return command_line_read(
        &(struct command_line){study->program, NULL, options, false}, argc,
        argv);
}

static void set_defaults(struct study *study)
{
    if (study->subjects.count == 0 && study->default_subjects)
        (void)read_subjects(study->default_subjects, &study->subjects);
    if (study->subjects.count == 0)
        subject_list_take_all(&study->subjects);
    if (study->lags.count == 0)
        study->lags.plans[study->lags.count++] = lag_idle;
}

void study_begin_row(const struct study_bout *bout)
{
    (void)fprintf(bout->study->rows,
                  "{\"kind\":\"%s\",\"subject\":\"%s\",\"lag\":\"%s\"",
                  bout->study->program, bout->named->name, bout->lag->text);
}

void study_number(const struct study_bout *bout, const char *key,
                  uint64_t number)
{
    (void)fprintf(bout->study->rows, ",\"%s\":", key);
    json_number(bout->study->rows, number);
}

void study_real(const struct study_bout *bout, const char *key, double number)
{
    (void)fprintf(bout->study->rows, ",\"%s\":%.6g", key, number);
}

void study_end_row(const struct study_bout *bout)
{
    struct study *study = bout->study;
    replay_circumstances_write(study->rows, bout->named, study->commit);
    (void)fputs("}\n", study->rows);
    (void)fflush(study->rows);
}

void study_begin_part(const struct study_bout *bout, uint32_t thread_count,
                      uint32_t pairs)
{
    study_begin_row(bout);
    (void)fprintf(bout->study->rows, ",\"part\":\"%s\"", bout->part);
    study_number(bout, "threads", thread_count);
    study_number(bout, "pairs", pairs);
    study_number(bout, "repeat", bout->repeat);
}

void study_end_part(const struct study_bout *bout, uint64_t failed)
{
    study_number(bout, "failed", failed);
    if (bout->lag->is_held)
        study_number(bout, "releases", subject_lag_releases());
    study_end_row(bout);
}

bool study_refuse(const struct study_bout *bout, const char *why)
{
    study_begin_row(bout);
    (void)fputs(",\"refused\":", bout->study->rows);
    replay_json_text(bout->study->rows, why);
    study_end_row(bout);
    return false;
}

const char *study_start_subject(const struct subject *subject,
                                const struct subject_setup *setup)
{
    return setup->limit_bytes && !subject->has_limit ? "it cannot be limited"
                                                     : subject->start(setup);
}

static bool run_wanted_parts(struct study_bout *bout)
{
    const struct study *study = bout->study;
    bool is_well = true;
    for (uint32_t i = 0; study->parts[i].name && is_well; i++) {
        bout->part = study->parts[i].name;
        if (!study->wanted || study->wanted >> i & 1U)
            is_well = study->parts[i].run(bout);
    }
    return is_well;
}

static bool run_subject(struct study *study, const struct subject *named,
                        const struct lag_plan *lag)
{
    struct study_bout bout = {.study = study,
                              .subject = subject_lagging(named, lag),
                              .named = named,
                              .lag = lag};
    const char *why = study->refusal ? study->refusal(named) : NULL;
    bool is_well = why ? study_refuse(&bout, why) : true;
    for (; is_well && bout.repeat < study->repeats; bout.repeat++)
        is_well = run_wanted_parts(&bout);
    return is_well;
}

static bool run_all(struct study *study)
{
    bool is_well = true;
    for (uint32_t l = 0; l < study->lags.count; l++)
        for (uint32_t s = 0; s < study->subjects.count; s++)
            is_well &= run_subject(study, study->subjects.subjects[s],
                                   &study->lags.plans[l]);
    return is_well;
}

static int start(struct study *study)
{
    struct machine machine;
    if (!command_line_go_to_user())
        return EXIT_USAGE;
    if (!command_line_use_driver(study->driver))
        return EXIT_FAILED;
    study->rows = study->json_path ? fopen(study->json_path, "we") : stdout;
    if (!study->rows) {
        perror(study->json_path);
        return EXIT_USAGE;
    }
    machine_describe(study->commit, &machine);
    study->commit = machine.commit;
    bool is_well = run_all(study) && !ferror(study->rows);
    if (study->json_path)
        is_well &= fclose(study->rows) == 0;
    return is_well ? EXIT_OK : EXIT_FAILED;
}

int study_main(struct study *study, int argc, char **argv)
{
    study->subjects.table = replay_subjects;
    if (read_options(study, argc, argv) < 0)
        return EXIT_USAGE;
    if (study->is_help)
        return fputs(study->help, stdout) < 0 ? EXIT_FAILED : EXIT_OK;
    set_defaults(study);
    return start(study);
}
