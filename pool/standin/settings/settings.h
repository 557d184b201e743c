/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The MOIETY_STANDIN_* environment, read once. A setting is taken whole or refused
 * whole: a typing error must not silently test something else.
 */
#ifndef MOIETY_POOL_STANDIN_SETTINGS_SETTINGS_H_
#define MOIETY_POOL_STANDIN_SETTINGS_SETTINGS_H_

#include <stdbool.h>
#include <stddef.h>

#include "pool/standin/base/context.h"

struct pci_address {
    int domain, bus, device;
};

/* What becomes of memory that is to have fabric handles. */
enum standin_fabric {
    STANDIN_FABRIC_NONE,       /* the device has none, and says so */
    STANDIN_FABRIC_NO_CHANNEL, /* it says that it has, and refuses them */
    STANDIN_FABRIC_READY
};

struct settings {
    bool is_valid;              /* false: cuInit refuses */
    size_t memory_bytes;        /* of each device */
    int device_count;           /* 1 to STANDIN_DEVICE_MAX */
    int driver_version;         /* 1000 x major + 10 x minor */
    bool has_memory_pools;      /* device attribute 115 */
    enum standin_fabric fabric; /* device attribute 128 */
    bool has_no_peers;          /* devices cannot access each other */
    int host_node;              /* that devices say is next to them; -1: none */
    bool is_cost_h200;          /* charge an H200 driver's times */
    int queue_limit;            /* operations that a stream takes */
    struct pci_address pci[STANDIN_DEVICE_MAX];
};

/* The settings; the first call reads the environment, and names each setting
 * it cannot use on stderr, with what it takes. Any thread, no lock needed. */
const struct settings *settings_get(void);

#endif
