/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "numa/pinned/shortage.h"

#include <stdio.h>

#include "pool/base/clock.h"
#include "pool/base/failure.h"

#define FIRST_PAUSE_NS UINT64_C(1000000000)
#define LONGEST_PAUSE_NS (60 * FIRST_PAUSE_NS)

/* A miss that asks for less after a refusal does not lengthen the pause, and one that
 * is refused long after the last is the first again. */
static uint64_t pause_of(const struct moietyi_shortage *shortage,
                         uint64_t now_ns)
{
    if (!shortage->bytes || now_ns > shortage->until_ns + LONGEST_PAUSE_NS)
        return FIRST_PAUSE_NS;
    if (now_ns < shortage->until_ns)
        return shortage->pause_ns;
    return shortage->pause_ns <= LONGEST_PAUSE_NS / 2 ? 2 * shortage->pause_ns
                                                      : LONGEST_PAUSE_NS;
}

void moietyi_shortage_note(struct moietyi_shortage *shortage, uint64_t bytes)
{
    uint64_t now_ns = moietyi_now_ns();
    bool is_new = !shortage->bytes || now_ns >= shortage->until_ns;
    shortage->pause_ns = pause_of(shortage, now_ns);
    shortage->until_ns = now_ns + shortage->pause_ns;
    if (is_new || bytes < shortage->bytes)
        shortage->bytes = bytes;
    (void)snprintf(shortage->reason, sizeof(shortage->reason), "%s",
                   moietyi_failure_message());
}

void moietyi_shortage_forget(struct moietyi_shortage *shortage, uint64_t bytes)
{
    if (bytes >= shortage->bytes)
        shortage->bytes = 0;
}

bool moietyi_shortage_covers(const struct moietyi_shortage *shortage,
                             uint64_t bytes)
{
    return shortage->bytes && bytes >= shortage->bytes &&
           moietyi_now_ns() < shortage->until_ns;
}
