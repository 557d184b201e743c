/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "numa/pinned/shortage.h"

#include <stdio.h>

#include "pool/base/clock.h"
#include "pool/base/failure.h"

#define FIRST_PAUSE_NS UINT64_C(1000000000)
#define LONGEST_PAUSE_NS (60 * FIRST_PAUSE_NS)

void moietyi_shortage_note(struct moietyi_shortage *shortage, uint64_t bytes)
{
    bool is_again = shortage->bytes && bytes >= shortage->bytes;
    if (!is_again) {
        shortage->bytes = bytes;
        shortage->pause_ns = FIRST_PAUSE_NS;
    } else if (shortage->pause_ns <= LONGEST_PAUSE_NS / 2) {
        shortage->pause_ns *= 2;
    } else {
        shortage->pause_ns = LONGEST_PAUSE_NS;
    }
    shortage->until_ns = moietyi_now_ns() + shortage->pause_ns;
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
