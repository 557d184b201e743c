/*
 * SPDX-License-Identifier: Apache-2.0
 */
#define _GNU_SOURCE
#include "bench/studies/study.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/base/machine.h"
#include "bench/replay/circumstances.h"
#include "bench/replay/json.h"
#include "bench/subjects/lagging.h"

bool study_parse_number(const char *text, uint64_t least, uint64_t most,
                        uint64_t *out)
{
    uint64_t number = 0;
    if (!*text)
        return false;
    for (; *text; text++) {
        if (*text < '0' || *text > '9' || number > UINT64_MAX / 10 - 1)
            return false;
        number = number * 10 + (uint64_t)(*text - '0');
    }
    *out = number;
    return number >= least && number <= most;
}

bool study_parse_parts(const char *list, const struct study_part *parts)
{
    for (;; list++) {
        size_t length = strcspn(list, ",");
        const struct study_part *part = parts;
        while (part->name && (strlen(part->name) != length ||
                              strncmp(part->name, list, length) != 0))
            part++;
        if (!part->name || *part->is_wanted)
            return false;
        *part->is_wanted = true;
        list += length;
        if (!*list)
            return true;
    }
}

static int refuse(const struct study *study, const char *argument,
                  const char *accepted)
{
    (void)fprintf(stderr, "%s: %s is not accepted: %s\n", study->program,
                  argument, accepted);
    return -1;
}

static bool add_subjects(struct study *study, const char *list)
{
    for (const char *name = list;; name++) {
        size_t length = strcspn(name, ",");
        const struct subject *subject =
            subject_named(replay_subjects, name, length);
        if (!subject || study->subject_count == STUDY_SUBJECTS_MAX)
            return false;
        for (uint32_t i = 0; i < study->subject_count; i++)
            if (study->subjects[i] == subject)
                return false;
        study->subjects[study->subject_count++] = subject;
        name += length;
        if (!*name)
            return true;
    }
}

static int refuse_value(const struct study *study, const char *argument,
                        const struct study_option *option)
{
    char range[64];
    if (option->parse)
        return refuse(study, argument, option->accepted);
    (void)snprintf(range, sizeof(range), "%" PRIu64 " to %" PRIu64,
                   option->least, option->most);
    return refuse(study, argument, range);
}

/* The value, if the argument is "--NAME=VALUE"; else NULL. */
static const char *value_of(const char *argument, const char *name)
{
    size_t length = strlen(name);
    bool is_it = strncmp(argument, "--", 2) == 0 &&
                 strncmp(argument + 2, name, length) == 0 &&
                 argument[2 + length] == '=';
    return is_it ? argument + 3 + length : NULL;
}

static int parse_text(const struct study *study, const char *argument,
                      const char *value, const char **out)
{
    *out = value;
    return *value ? 0 : refuse(study, argument, "a name is wanted");
}

/* 1: it is none of these. */
static int parse_common(struct study *study, const char *argument)
{
    const char *value;
    if ((value = value_of(argument, "subject")))
        return add_subjects(study, value)
                   ? 0
                   : refuse(study, argument,
                            "names of subjects, each once at most");
    if (study->has_lag && (value = value_of(argument, "lag")))
        return lag_plans_parse(value, &study->lags)
                   ? 0
                   : refuse(study, argument, lag_accepted);
    if ((value = value_of(argument, "seed")))
        return study_parse_number(value, 1, UINT64_MAX / 16, &study->seed)
                   ? 0
                   : refuse(study, argument, "1 to 2^60 - 1");
    if ((value = value_of(argument, "driver")))
        return parse_text(study, argument, value, &study->driver);
    if ((value = value_of(argument, "json")))
        return parse_text(study, argument, value, &study->json_path);
    if ((value = value_of(argument, "commit")))
        return parse_text(study, argument, value, &study->commit);
    return 1;
}

static bool take_value(const struct study_option *option, const char *value)
{
    uint64_t number;
    if (option->parse)
        return option->parse(value);
    if (!study_parse_number(value, option->least, option->most, &number))
        return false;
    if (option->count)
        *option->count = (uint32_t)number;
    else
        *option->number = number;
    return true;
}

static int parse_one(struct study *study, const char *argument)
{
    int result = parse_common(study, argument);
    const struct study_option *option = study->options;
    for (; result == 1 && option->name; option++) {
        const char *value = value_of(argument, option->name);
        if (value)
            return take_value(option, value)
                       ? 0
                       : refuse_value(study, argument, option);
    }
    return result == 1 ? refuse(study, argument, "--help says what is")
                       : result;
}

static void set_defaults(struct study *study)
{
    if (study->subject_count == 0 && study->default_subjects)
        (void)add_subjects(study, study->default_subjects);
    if (study->subject_count == 0)
        for (size_t i = 0; replay_subjects[i]; i++)
            study->subjects[study->subject_count++] = replay_subjects[i];
    if (study->lags.count == 0)
        study->lags.plans[study->lags.count++] = lag_idle;
}

void study_begin_row(struct study *study, const char *kind,
                     const struct lag_plan *lag)
{
    (void)fprintf(study->rows,
                  "{\"kind\":\"%s\",\"subject\":\"%s\",\"lag\":\"%s\"", kind,
                  study->subject_name, lag->text);
}

void study_number(struct study *study, const char *key, uint64_t number)
{
    (void)fprintf(study->rows, ",\"%s\":", key);
    replay_json_bytes(study->rows, number);
}

void study_real(struct study *study, const char *key, double number)
{
    (void)fprintf(study->rows, ",\"%s\":%.6g", key, number);
}

void study_real_or_null(struct study *study, const char *key, double number,
                        bool is_known)
{
    if (is_known)
        study_real(study, key, number);
    else
        (void)fprintf(study->rows, ",\"%s\":null", key);
}

void study_end_row(struct study *study, const struct subject *subject)
{
    replay_circumstances_write(study->rows, subject, study->commit);
    (void)fputs("}\n", study->rows);
    (void)fflush(study->rows);
}

void study_begin_part(struct study *study, const char *kind,
                      const struct lag_plan *lag,
                      const struct study_part_row *row)
{
    study_begin_row(study, kind, lag);
    (void)fprintf(study->rows, ",\"part\":\"%s\"", row->part);
    study_number(study, "threads", row->threads);
    study_number(study, "pairs", row->pairs);
    study_number(study, "repeat", row->repeat);
}

void study_end_part(struct study *study, const struct subject *subject,
                    const struct lag_plan *lag, uint64_t failed)
{
    study_number(study, "failed", failed);
    if (lag->is_held)
        study_number(study, "releases", subject_lag_releases());
    study_end_row(study, subject);
}

const char *study_start_subject(const struct subject *subject,
                                const struct subject_setup *setup)
{
    return setup->limit_bytes && !subject->has_limit ? "it cannot be limited"
                                                     : subject->start(setup);
}

bool study_refuse(struct study *study, const char *kind,
                  const struct subject *subject, const struct lag_plan *lag,
                  const char *why)
{
    study_begin_row(study, kind, lag);
    (void)fputs(",\"refused\":", study->rows);
    replay_json_text(study->rows, why);
    study_end_row(study, subject);
    return false;
}

static bool run_all(struct study *study)
{
    bool is_well = true;
    for (uint32_t l = 0; l < study->lags.count; l++) {
        for (uint32_t s = 0; s < study->subject_count; s++) {
            const struct lag_plan *lag = &study->lags.plans[l];
            study->subject_name = study->subjects[s]->name;
            is_well &= study->run(
                study, subject_lagging(study->subjects[s], lag), lag);
        }
    }
    return is_well;
}

/* `bazel run` starts us in a folder of its own and says which the user's is. */
static bool go_to_user(void)
{
    const char *folder = getenv("BUILD_WORKING_DIRECTORY");
    if (!folder || chdir(folder) == 0)
        return true;
    perror(folder);
    return false;
}

static int start(struct study *study)
{
    struct machine machine;
    if (!go_to_user())
        return STUDY_EXIT_USAGE;
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): the only thread so far. */
    if (study->driver && setenv("BINADE_DRIVER", study->driver, 1) != 0)
        return STUDY_EXIT_FAILED;
    study->rows = study->json_path ? fopen(study->json_path, "we") : stdout;
    if (!study->rows) {
        perror(study->json_path);
        return STUDY_EXIT_USAGE;
    }
    machine_describe(study->commit, &machine);
    study->commit = machine.commit;
    bool is_well = run_all(study) && !ferror(study->rows);
    if (study->json_path)
        is_well &= fclose(study->rows) == 0;
    return is_well ? STUDY_EXIT_OK : STUDY_EXIT_FAILED;
}

int study_main(struct study *study, int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--help") == 0)
        return fputs(study->help, stdout) < 0 ? STUDY_EXIT_FAILED
                                              : STUDY_EXIT_OK;
    for (int i = 1; i < argc; i++)
        if (parse_one(study, argv[i]) != 0)
            return STUDY_EXIT_USAGE;
    set_defaults(study);
    return start(study);
}
