/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include <string.h>

#include "bench/subjects/replay_subject.h"

extern const struct replay_subject replay_subject_best_fit;
extern const struct replay_subject replay_subject_binade;
extern const struct replay_subject replay_subject_binade_nocache;
extern const struct replay_subject replay_subject_cuda_async;
extern const struct replay_subject replay_subject_cuda_malloc;
extern const struct replay_subject replay_subject_mutex;
extern const struct replay_subject replay_subject_pow2;
extern const struct replay_subject replay_subject_torch;

const struct replay_subject *const replay_subjects[] = {
    &replay_subject_binade,
    &replay_subject_binade_nocache,
    &replay_subject_best_fit,
    &replay_subject_mutex,
    &replay_subject_pow2,
    &replay_subject_cuda_malloc,
    &replay_subject_cuda_async,
    &replay_subject_torch,
    NULL,
};

const struct replay_subject *replay_subject_named(const char *name,
                                                  size_t length)
{
    for (size_t i = 0; replay_subjects[i]; i++)
        if (strlen(replay_subjects[i]->name) == length &&
            strncmp(replay_subjects[i]->name, name, length) == 0)
            return replay_subjects[i];
    return NULL;
}
