/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * How much a tenant has, and how much it may have. Threads draw credit from the
 * account in chunks, so that those of one tenant do not meet at each block; what
 * they drew is withdrawn from all of them before anything is refused
 * (docs/adr/0012-credit-for-tenants.md).
 *
 * The rules: charged = live + credit; charged is never raised above the budget;
 * and while an account is tight, credit is neither made nor used.
 */
#ifndef BINADE_POOL_TENANT_ACCOUNT_H_
#define BINADE_POOL_TENANT_ACCOUNT_H_

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "binade/tenant.h"

/* A budget that is none. */
#define BINADEI_BUDGET_NONE (UINT64_C(1) << 62)
/* Threads with the same remainder share one. */
#define BINADEI_ACCOUNT_STRIPES 32U

/* Edge CR, relaxed, here and below: numbers by which nothing else becomes
 * visible. That each has one order of its changes is enough for the rules. */

struct binadei_stripe {
    /* Edge CR, relaxed. */
    alignas(64) _Atomic uint64_t credit_bytes;
    _Atomic uint64_t charge_count;
};

struct binadei_account {
    /* Edge CR, relaxed. */
    alignas(64) _Atomic uint64_t charged_bytes;
    _Atomic uint64_t peak_bytes; /* of charged_bytes */
    _Atomic uint64_t refusal_count;
    /* Edge CR, relaxed. The budget in bytes, times two, plus one while the
     * account is tight: one word, so that nobody slackens a budget that was
     * lowered meanwhile. */
    alignas(64) _Atomic uint64_t terms;
    struct binadei_stripe stripes[BINADEI_ACCOUNT_STRIPES];
};

/* With nothing charged; nobody else knows it. */
void binadei_account_init(struct binadei_account *account,
                          uint64_t budget_bytes);
/* False: the budget does not allow it, or the account was closed; counted as a
 * refusal. Any thread, lock-free; `number` is the thread's. */
bool binadei_account_charge(struct binadei_account *account, uint32_t number,
                            uint64_t bytes);
/* What was charged before, by whichever thread. */
void binadei_account_release(struct binadei_account *account, uint32_t number,
                             uint64_t bytes);
/* The charge became an allocation. */
void binadei_account_count(struct binadei_account *account, uint32_t number);
void binadei_account_set_budget(struct binadei_account *account,
                                uint64_t budget_bytes);
/* From now on nothing is charged. False: something still is; nothing changed. */
bool binadei_account_try_close(struct binadei_account *account);

uint64_t binadei_account_budget_bytes(const struct binadei_account *account);
/* Exact at rest. */
uint64_t binadei_account_live_bytes(const struct binadei_account *account);
/* All its numbers but the budget. */
void binadei_account_sum(const struct binadei_account *account,
                         binade_tenant_info *out);

#endif
