/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "bench/server/subjects/subject.h"

const struct server_subject *const server_subjects[] = {
    &server_subject_moiety,
    &server_subject_mutex,
    &server_subject_driver,
    &server_subject_planted,
    NULL,
};
