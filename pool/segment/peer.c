/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Other devices that may access mapped memory. Later mappings are for them too;
 * places that handles left are not, because nothing new uses them.
 */
#include "pool/base/failure.h"
#include "pool/segment/mapped.h"

static moiety_status grant(const struct moietyi_segments *segments,
                           const struct moietyi_segment *segment,
                           int32_t device, bool is_granted)
{
    const struct moietyi_mapper *mapper = segments->mapper;
    return mapper->grant(mapper->context, segment->info.address,
                         segment->info.memory_bytes, device, is_granted);
}

/* Of the grower, who alone changes the list. */
static moiety_status grant_all(const struct moietyi_segments *segments,
                               int32_t device)
{
    moiety_status status = MOIETY_OK;
    const struct moietyi_segment *at = segments->listed;
    for (; at && status == MOIETY_OK; at = at->next)
        if (at->is_mapped)
            status = grant(segments, at, device, true);
    if (status == MOIETY_OK)
        return status;
    /* Also of the mapping that failed, whose rights are not known. */
    for (const struct moietyi_segment *granted = segments->listed;
         granted != at; granted = granted->next)
        if (granted->is_mapped)
            (void)grant(segments, granted, device, false);
    return status;
}

moiety_status moietyi_segments_add_peer(struct moietyi_segments *segments,
                                        int32_t device)
{
    uint64_t bit = UINT64_C(1) << device;
    moiety_status status = MOIETY_OK;
    moietyi_grower_begin(segments);
    if (!(segments->peers & bit))
        status = grant_all(segments, device);
    if (status == MOIETY_OK)
        segments->peers |= bit;
    /* They keep access to what is still mapped in any case. */
    if (status == MOIETY_OK && !moietyi_segments_are_mapped(segments)) {
        status =
            moietyi_fail(MOIETY_E_UNSUPPORTED,
                         "the driver refuses to map, and new memory is "
                         "cuMemAlloc's: contexts reach that once they have "
                         "enabled peer access");
    }
    moietyi_grower_end(segments);
    return status;
}
