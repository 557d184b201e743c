/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * How much a tenant has, and how much it may have. Threads draw credit from the
 * account in chunks, so that those of one tenant do not meet at each block; what
 * they drew is withdrawn from all of them before anything is refused
 * (docs/dev/adr/0012-credit-for-tenants.md).
 *
 * The rules: charged = live + credit; charged is never raised above the budget;
 * and while an account is tight, credit is neither made nor used.
 */
#ifndef MOIETY_POOL_TENANT_ACCOUNT_H_
#define MOIETY_POOL_TENANT_ACCOUNT_H_

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "moiety/tenant.h"

/* A budget that is none. */
#define MOIETYI_BUDGET_NONE (UINT64_C(1) << 62)
/* Threads with the same remainder share one. */
#define MOIETYI_ACCOUNT_STRIPES 32U

/* Edge CR, relaxed, here and below: numbers by which nothing else becomes
 * visible. That each has one order of its changes is enough for the rules. */

struct moietyi_stripe {
    /* Edge CR, relaxed. */
    alignas(64) _Atomic uint64_t credit_bytes;
    _Atomic uint64_t charge_count;
};

struct moietyi_account {
    /* Edge CR, relaxed. */
    alignas(64) _Atomic uint64_t charged_bytes;
    _Atomic uint64_t peak_bytes; /* of charged_bytes */
    _Atomic uint64_t refusal_count;
    /* Edge CR, relaxed. The budget in bytes, times two, plus one while the
     * account is tight: one word, so that nobody slackens a budget that was
     * lowered meanwhile. */
    alignas(64) _Atomic uint64_t terms;
    struct moietyi_stripe stripes[MOIETYI_ACCOUNT_STRIPES];
};

/* With nothing charged; nobody else knows it. */
void moietyi_account_init(struct moietyi_account *account,
                          uint64_t budget_bytes);
/* False: the budget does not allow it, or the account was closed; counted as a
 * refusal. Any thread, lock-free; `number` is the thread's. */
bool moietyi_account_charge(struct moietyi_account *account, uint32_t number,
                            uint64_t bytes);
/* Discharges bytes that any thread charged before. */
void moietyi_account_release(struct moietyi_account *account, uint32_t number,
                             uint64_t bytes);
/* The charge became an allocation. */
void moietyi_account_count(struct moietyi_account *account, uint32_t number);
void moietyi_account_set_budget(struct moietyi_account *account,
                                uint64_t budget_bytes);
/* From now on nothing is charged. False: something still is; nothing changed. */
bool moietyi_account_try_close(struct moietyi_account *account);

uint64_t moietyi_account_budget_bytes(const struct moietyi_account *account);
/* Exact at rest. */
uint64_t moietyi_account_live_bytes(const struct moietyi_account *account);
/* All its numbers but the budget. */
void moietyi_account_sum(const struct moietyi_account *account,
                         moiety_tenant_stats *out);

#endif
