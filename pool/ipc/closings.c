/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The closes whose work is not over: a list under a lock. The thread that asks
 * the driver for one marks it, so that nobody else does and it stays where it
 * is, and lets go of the lock.
 */
#include "pool/ipc/closings.h"

#include <pthread.h>
#include <stdlib.h>

#include "pool/base/clock.h"
#include "pool/base/failure.h"
#include "pool/base/lock.h"
#include "pool/driver/section.h"
#include "pool/ipc/import.h"
#include "pool/ipc/opener.h"

#define NAP_NS 20000L
#define NAP_MOST_NS 1000000L

struct closing {
    struct closing *next;
    uint64_t number;
    struct moietyi_opening *opening;
    CUevent event;
    bool is_being_asked; /* the lock */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* Under the lock. */
static struct closing *closings;
static uint64_t last_number;

/* Whether the event is over. An error of the device is no proof of that; the
 * end of the context is. */
static moiety_status closings_query(const struct moietyi_driver *driver,
                                    CUevent event, bool *out_is_over)
{
    struct moietyi_section section;
    *out_is_over = false;
    moiety_status status = moietyi_section_enter(driver, NULL, &section);
    if (status != MOIETY_OK)
        return status;
    CUresult code = driver->cuEventQuery(event);
    if (code != CUDA_ERROR_NOT_READY)
        status = moietyi_driver_status(MOIETYI_ENTRY_cuEventQuery, code);
    *out_is_over = code == CUDA_SUCCESS || moietyi_opener_is_gone(status);
    (void)moietyi_section_leave(&section);
    return *out_is_over ? MOIETY_OK : status;
}

static moiety_status closings_synchronise(const struct moietyi_driver *driver,
                                          CUevent event)
{
    struct moietyi_section section;
    moiety_status status = moietyi_section_enter(driver, NULL, &section);
    if (status != MOIETY_OK)
        return status;
    status = MOIETYI_CALL(driver, cuEventSynchronize, (event));
    (void)moietyi_section_leave(&section);
    return moietyi_opener_is_gone(status) ? MOIETY_OK : status;
}

/* The record ends; it is in no list. */
static void closings_forget(const struct moietyi_driver *driver,
                            struct closing *closing)
{
    if (closing->event)
        (void)driver->cuEventDestroy(closing->event);
    free(closing);
}

static void closings_finish(const struct moietyi_driver *driver,
                            struct closing *closing)
{
    moietyi_opening_end_close(closing->opening);
    closings_forget(driver, closing);
}

static void undo(const struct moietyi_driver *driver, struct closing *closing)
{
    moietyi_opening_undo_close(closing->opening);
    closings_forget(driver, closing);
}

static uint64_t closings_list(struct closing *closing)
{
    moietyi_lock(&lock);
    uint64_t number = ++last_number;
    closing->number = number;
    closing->next = closings;
    closings = closing;
    moietyi_unlock(&lock);
    return number;
}

/* Waits for the event; where that fails, the import is as it was. */
static moiety_status wait_now(const struct moietyi_driver *driver,
                              struct closing *closing)
{
    moiety_status status = closing->event
                               ? closings_synchronise(driver, closing->event)
                               : MOIETY_OK;
    if (status == MOIETY_OK)
        closings_finish(driver, closing);
    else
        undo(driver, closing);
    return status;
}

/* Asks once; 0 if it is over, otherwise the number that it is listed by. */
static uint64_t wait_later(const struct moietyi_driver *driver,
                           struct closing *closing)
{
    bool is_over = !closing->event;
    /* The driver's answer now is returned to a thread that asks later. */
    if (!is_over)
        (void)closings_query(driver, closing->event, &is_over);
    if (!is_over)
        return closings_list(closing);
    closings_finish(driver, closing);
    return 0;
}

moiety_status moietyi_import_close(const struct moietyi_driver *driver,
                                   moiety_devptr address, moiety_stream stream,
                                   uint64_t *out_closing)
{
    struct moietyi_opening *opening;
    moiety_status status = moietyi_opening_begin_close(address, &opening);
    if (status == MOIETY_E_INVALID) {
        return moietyi_fail(status,
                            "all imports of the segment that has 0x%llx are "
                            "closed",
                            address);
    }
    if (status != MOIETY_OK)
        return status;
    struct closing *closing = calloc(1, sizeof(*closing));
    if (!closing) {
        moietyi_opening_undo_close(opening);
        return moietyi_fail(MOIETY_E_NO_HOST_MEMORY,
                            "no memory to note a close");
    }
    closing->opening = opening;
    status = moietyi_closing_record(driver, opening, stream, &closing->event);
    if (status != MOIETY_OK) {
        undo(driver, closing);
        return status;
    }
    if (!out_closing)
        return wait_now(driver, closing);
    *out_closing = wait_later(driver, closing);
    return MOIETY_OK;
}

/* The closing with the number, marked. NULL: there is none, or another thread
 * asks for it; `*out_is_there` says which. */
static struct closing *closings_mark(uint64_t number, bool *out_is_there)
{
    moietyi_lock(&lock);
    struct closing *closing = closings;
    while (closing && closing->number != number)
        closing = closing->next;
    *out_is_there = closing != NULL;
    if (closing && closing->is_being_asked)
        closing = NULL;
    if (closing)
        closing->is_being_asked = true;
    moietyi_unlock(&lock);
    return closing;
}

static void unmark(const struct moietyi_driver *driver, struct closing *closing,
                   bool is_over)
{
    moietyi_lock(&lock);
    closing->is_being_asked = false;
    struct closing **at = &closings;
    while (is_over && *at != closing)
        at = &(*at)->next;
    if (is_over)
        *at = closing->next;
    moietyi_unlock(&lock);
    if (is_over)
        closings_finish(driver, closing);
}

/* MOIETY_E_WOULD_BLOCK without a message: not yet. */
static moiety_status closings_ask(const struct moietyi_driver *driver,
                                  uint64_t number)
{
    bool is_there;
    bool is_over;
    struct closing *closing = closings_mark(number, &is_there);
    if (!closing)
        return is_there ? MOIETY_E_WOULD_BLOCK : MOIETY_OK;
    moiety_status status = closings_query(driver, closing->event, &is_over);
    unmark(driver, closing, is_over);
    return status == MOIETY_OK && !is_over ? MOIETY_E_WOULD_BLOCK : status;
}

static uint64_t latest_number(void)
{
    moietyi_lock(&lock);
    uint64_t number = last_number;
    moietyi_unlock(&lock);
    return number;
}

moiety_status moietyi_import_wait(const struct moietyi_driver *driver,
                                  uint64_t closing, uint32_t timeout_ms)
{
    long nap_ns = NAP_NS;
    uint64_t end_ns = moietyi_now_ns() + timeout_ms * UINT64_C(1000000);
    if (closing > latest_number())
        return moietyi_fail(MOIETY_E_INVALID, "%llu is the number of no close",
                            (unsigned long long)closing);
    moiety_status status = closings_ask(driver, closing);
    while (status == MOIETY_E_WOULD_BLOCK && !moietyi_is_overdue(end_ns)) {
        moietyi_nap_longer(&nap_ns, NAP_MOST_NS);
        moietyi_interrupt_ask();
        status = closings_ask(driver, closing);
    }
    if (status != MOIETY_E_WOULD_BLOCK)
        return status;
    return moietyi_is_interrupted()
               ? moietyi_fail(MOIETY_E_INTERRUPTED, "the wait was interrupted")
               : moietyi_fail(MOIETY_E_TIMEOUT,
                              "the work behind the close is not over");
}

/* The lowest number above `number`; 0: none. */
static uint64_t closings_next_number(uint64_t number)
{
    uint64_t next = 0;
    moietyi_lock(&lock);
    for (const struct closing *closing = closings; closing;
         closing = closing->next)
        if (closing->number > number && (!next || closing->number < next))
            next = closing->number;
    moietyi_unlock(&lock);
    return next;
}

moiety_status moietyi_closings_poll(const struct moietyi_driver *driver)
{
    moiety_status first = MOIETY_OK;
    for (uint64_t number = closings_next_number(0); number;
         number = closings_next_number(number)) {
        moiety_status status = closings_ask(driver, number);
        if (first == MOIETY_OK && status != MOIETY_E_WOULD_BLOCK)
            first = status;
    }
    return first;
}
