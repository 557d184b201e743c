/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "pool/tenant/account.h"

/* Of charged_bytes: above any budget, so that nothing fits. */
#define CLOSED (UINT64_C(1) << 63)
#define TIGHT UINT64_C(1)
/* All that threads may have drawn together: two chunks for each stripe, an
 * eighth of the budget. */
#define CHUNK_SHARE 512U
#define CHUNK_BYTES_MAX (UINT64_C(1) << 20)
/* Less than this is not worth a chunk. */
#define CHUNK_BYTES_MIN (UINT64_C(4) << 10)

/* Every operation of this file is relaxed, by the edge CR: a number makes nothing
 * else visible. */

/* CR, relaxed. */
static uint64_t account_read(const _Atomic uint64_t *number)
{
    return atomic_load_explicit(number, memory_order_relaxed);
}

/* CR, relaxed, also where it fails: what was seen is only compared again. */
/* NOLINTNEXTLINE(readability-non-const-parameter): the swap writes `seen`. */
static bool swap(_Atomic uint64_t *number, uint64_t *seen, uint64_t next)
{
    return atomic_compare_exchange_weak_explicit(
        number, seen, next, memory_order_relaxed, memory_order_relaxed);
}

/* CR, relaxed. */
static uint64_t account_add(_Atomic uint64_t *number, uint64_t more)
{
    return atomic_fetch_add_explicit(number, more, memory_order_relaxed) + more;
}

static uint64_t budget_of(uint64_t terms)
{
    return terms / 2;
}

/* The bytes that a thread draws at a time; 0: there is no credit. */
static uint64_t chunk_of(uint64_t terms)
{
    uint64_t bytes = budget_of(terms) / CHUNK_SHARE;
    if (terms & TIGHT || bytes < CHUNK_BYTES_MIN)
        return 0;
    return bytes < CHUNK_BYTES_MAX ? bytes : CHUNK_BYTES_MAX;
}

static struct moietyi_stripe *stripe_of(struct moietyi_account *account,
                                        uint32_t number)
{
    return &account->stripes[number % MOIETYI_ACCOUNT_STRIPES];
}

static void raise_peak(struct moietyi_account *account, uint64_t bytes)
{
    uint64_t seen = account_read(&account->peak_bytes);
    while (seen < bytes && !swap(&account->peak_bytes, &seen, bytes))
        continue;
}

void moietyi_account_init(struct moietyi_account *account,
                          uint64_t budget_bytes)
{
    atomic_init(&account->charged_bytes, 0);
    atomic_init(&account->peak_bytes, 0);
    atomic_init(&account->refusal_count, 0);
    atomic_init(&account->terms, 2 * budget_bytes);
    for (unsigned i = 0; i < MOIETYI_ACCOUNT_STRIPES; i++) {
        atomic_init(&account->stripes[i].credit_bytes, 0);
        atomic_init(&account->stripes[i].charge_count, 0);
    }
}

/* All credit, back into the account. False: there was none. */
static bool account_withdraw(struct moietyi_account *account)
{
    uint64_t bytes = 0;
    for (unsigned i = 0; i < MOIETYI_ACCOUNT_STRIPES; i++) {
        _Atomic uint64_t *credit = &account->stripes[i].credit_bytes;
        /* CR, relaxed. */
        if (account_read(credit))
            bytes += atomic_exchange_explicit(credit, 0, memory_order_relaxed);
    }
    (void)account_add(&account->charged_bytes, -bytes);
    return bytes != 0;
}

static void tighten(struct moietyi_account *account)
{
    /* CR, relaxed: one word, changed as a whole. */
    if (!(account_read(&account->terms) & TIGHT))
        atomic_fetch_or_explicit(&account->terms, TIGHT, memory_order_relaxed);
}

/* Far enough from the budget that threads can draw for a while. */
static bool is_slack(uint64_t charged_bytes, uint64_t budget_bytes)
{
    return charged_bytes <= budget_bytes - budget_bytes / 4;
}

static bool try_credit(struct moietyi_stripe *stripe, uint64_t bytes)
{
    uint64_t seen = account_read(&stripe->credit_bytes);
    while (seen >= bytes)
        if (swap(&stripe->credit_bytes, &seen, seen - bytes))
            return true;
    return false;
}

/* Raises charged_bytes if the budget allows it. */
static bool try_draw(struct moietyi_account *account, uint64_t bytes)
{
    uint64_t seen = account_read(&account->charged_bytes);
    do {
        uint64_t budget_bytes = budget_of(account_read(&account->terms));
        if (seen > budget_bytes || bytes > budget_bytes - seen)
            return false;
    } while (!swap(&account->charged_bytes, &seen, seen + bytes));
    raise_peak(account, seen + bytes);
    return true;
}

/* For one charge; and again as long as others had credit. It ends after two
 * searches that found none: a thread that did not see yet that the account is
 * tight may have released some behind the first one. */
static bool charge_tight(struct moietyi_account *account, uint64_t bytes)
{
    unsigned vain = 0;
    while (!try_draw(account, bytes)) {
        if (vain == 2)
            return false;
        tighten(account);
        vain = account_withdraw(account) ? 0 : vain + 1;
    }
    return true;
}

static bool charge(struct moietyi_account *account,
                   struct moietyi_stripe *stripe, uint64_t bytes)
{
    uint64_t chunk_bytes = chunk_of(account_read(&account->terms));
    if (bytes > chunk_bytes)
        return charge_tight(account, bytes);
    if (try_credit(stripe, bytes))
        return true;
    if (!try_draw(account, bytes + chunk_bytes)) {
        tighten(account);
        return charge_tight(account, bytes);
    }
    (void)account_add(&stripe->credit_bytes, chunk_bytes);
    return true;
}

bool moietyi_account_charge(struct moietyi_account *account, uint32_t number,
                            uint64_t bytes)
{
    if (charge(account, stripe_of(account, number), bytes))
        return true;
    (void)account_add(&account->refusal_count, 1);
    return false;
}

/* Straight into the account, which may become slack by it. */
static void account_give_back(struct moietyi_account *account, uint64_t bytes)
{
    uint64_t terms = account_read(&account->terms);
    uint64_t charged_bytes = account_add(&account->charged_bytes, -bytes);
    if (terms & TIGHT && is_slack(charged_bytes, budget_of(terms)))
        /* If it fails, the next one does it. */
        (void)swap(&account->terms, &terms, terms & ~TIGHT);
}

void moietyi_account_release(struct moietyi_account *account, uint32_t number,
                             uint64_t bytes)
{
    struct moietyi_stripe *stripe = stripe_of(account, number);
    uint64_t chunk_bytes = chunk_of(account_read(&account->terms));
    if (bytes > chunk_bytes) {
        account_give_back(account, bytes);
        return;
    }
    uint64_t credit_bytes = account_add(&stripe->credit_bytes, bytes);
    if (credit_bytes > 2 * chunk_bytes &&
        try_credit(stripe, credit_bytes - chunk_bytes))
        account_give_back(account, credit_bytes - chunk_bytes);
}

void moietyi_account_count(struct moietyi_account *account, uint32_t number)
{
    (void)account_add(&stripe_of(account, number)->charge_count, 1);
}

void moietyi_account_set_budget(struct moietyi_account *account,
                                uint64_t budget_bytes)
{
    /* Tight until the next release: what was drawn by the old budget ends. CR,
     * relaxed. */
    atomic_store_explicit(&account->terms, 2 * budget_bytes | TIGHT,
                          memory_order_relaxed);
    (void)account_withdraw(account);
}

bool moietyi_account_try_close(struct moietyi_account *account)
{
    uint64_t nothing = 0;
    tighten(account);
    (void)account_withdraw(account);
    /* CR, relaxed, also where it fails: then nothing changed. */
    return atomic_compare_exchange_strong_explicit(
        &account->charged_bytes, &nothing, CLOSED, memory_order_relaxed,
        memory_order_relaxed);
}

uint64_t moietyi_account_budget_bytes(const struct moietyi_account *account)
{
    return budget_of(account_read(&account->terms));
}

uint64_t moietyi_account_live_bytes(const struct moietyi_account *account)
{
    uint64_t charged_bytes = account_read(&account->charged_bytes) & ~CLOSED;
    uint64_t credit_bytes = 0;
    for (unsigned i = 0; i < MOIETYI_ACCOUNT_STRIPES; i++)
        credit_bytes += account_read(&account->stripes[i].credit_bytes);
    /* While others work these are of different moments. */
    return charged_bytes > credit_bytes ? charged_bytes - credit_bytes : 0;
}

void moietyi_account_sum(const struct moietyi_account *account,
                         moiety_tenant_stats *out)
{
    out->live_bytes = moietyi_account_live_bytes(account);
    out->peak_bytes = account_read(&account->peak_bytes);
    /* A charge is seen before the peak that it makes. */
    if (out->peak_bytes < out->live_bytes)
        out->peak_bytes = out->live_bytes;
    out->refusal_count = account_read(&account->refusal_count);
    for (unsigned i = 0; i < MOIETYI_ACCOUNT_STRIPES; i++)
        out->allocation_count +=
            account_read(&account->stripes[i].charge_count);
}
