/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Lets calls fail by which memory is mapped, bound, touched and asked about,
 * in any thread, and counts what stays mapped. Only calls in what is linked
 * statically are seen: the linker redirects them.
 */
#ifndef MOIETY_TESTS_SUPPORT_TOOLS_FAILING_STEPS_H_
#define MOIETY_TESTS_SUPPORT_TOOLS_FAILING_STEPS_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum failing_step {
    FAILING_MAP,                /* mmap(): ENOMEM */
    FAILING_BIND,               /* hwloc_set_area_membind(): EPERM */
    FAILING_BIND_THREAD,        /* hwloc_set_membind(): EPERM */
    FAILING_START,              /* pthread_create(): EAGAIN */
    FAILING_POPULATE,           /* madvise(MADV_POPULATE_WRITE): ENOMEM */
    FAILING_OLD_POPULATE,       /* the same: EINVAL, as before Linux 5.14 */
    FAILING_FORBIDDEN_POPULATE, /* the same: EPERM */
    FAILING_HUGE_WISH,          /* madvise(MADV_HUGEPAGE): EINVAL */
    FAILING_READ_BACK,          /* move_pages(): EPERM */
    FAILING_STEP_COUNT
};

/* From now on the calls number `first` to `first + count - 1` of this step
 * fail, counted from 1; no other step's. */
void failing_steps_arm(enum failing_step step, unsigned first, unsigned count);
/* At that call the whole process is killed, as the system kills. */
void failing_steps_arm_kill(enum failing_step step, unsigned first);
/* At that call, in whatever thread, this is called first; the call does not fail. */
void failing_steps_arm_call(enum failing_step step, unsigned first,
                            void (*function)(void *data), void *data);
/* Calls it off; how many calls the step had since. */
unsigned failing_steps_disarm(void);
/* Bytes mapped and not unmapped. */
int64_t failing_steps_mapped_bytes(void);

#ifdef __cplusplus
}
#endif

#endif
