/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What a number was measured on.
 */
#ifndef MOIETY_BENCH_BASE_MACHINE_H_
#define MOIETY_BENCH_BASE_MACHINE_H_

#define MACHINE_TEXT_BYTES 128

struct machine {
    char cpu[MACHINE_TEXT_BYTES];    /* its model, as Linux names it */
    char commit[MACHINE_TEXT_BYTES]; /* of the checkout, "unknown" if none */
    long processor_count;
};

/* `commit` NULL: asks git about the folder that the program was started from,
 * which under `bazel run` is the workspace. */
void machine_describe(const char *commit, struct machine *out);

#endif
