/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Each meeting begins with everything held, has a thread stop, and ends with
 * the verifiers and conservation.
 */
#include "tests/buddy/maps/map_steps.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>

#include "tests/progress/freeze.h"
#include "tests/support/buddy_probe.h"
#include "tests/support/map_probe.h"
#include "tests/support/tools/failing_memory.h"

#define PAGES 4U
#define CHUNK ((uint64_t)PROBE_CHUNK_GRAINS)
#define PAGE ((uint64_t)PROBE_PAGE_GRAINS)

struct meeting {
    const char *failure;
    struct moietyi_buddy *buddy;
    struct moietyi_maps *maps;
    atomic_ullong held; /* grains; nothing is concluded before the end */
    /* The thread that stops. */
    void (*work)(struct meeting *meeting);
    struct freeze_wish wish;
    atomic_bool is_over;
    bool is_done; /* what `work` found out */
    /* Written by whoever holds the memory, ordered by the maps alone. */
    unsigned payload;
    /* Relaxed. */
    atomic_bool is_given;
    atomic_bool is_moved;
    pthread_t thread;
};

static void expect(struct meeting *meeting, bool is_right, const char *what)
{
    if (!is_right && !meeting->failure)
        meeting->failure = what;
}

static void give(struct meeting *meeting, uint64_t start, uint64_t grains)
{
    atomic_fetch_sub_explicit(&meeting->held, grains, memory_order_relaxed);
    expect(meeting, map_probe_give(meeting->maps, start, grains) == PROBE_GIVEN,
           "a give is refused");
}

static bool claim(struct meeting *meeting, uint64_t start, uint64_t grains)
{
    const struct map_probe_view view = {meeting->buddy, meeting->maps, false,
                                        false};
    bool is_claimed = map_probe_view_claim(&view, start, grains);
    if (is_claimed)
        atomic_fetch_add_explicit(&meeting->held, grains, memory_order_relaxed);
    return is_claimed;
}

static uint64_t fresh(const struct meeting *meeting)
{
    return map_probe_grains(meeting->maps, PROBE_FRESH);
}

static uint64_t ageing(const struct meeting *meeting)
{
    return map_probe_grains(meeting->maps, PROBE_AGEING);
}

static void *do_work(void *argument)
{
    struct meeting *meeting = argument;
    freeze_follow(&meeting->wish);
    meeting->work(meeting);
    freeze_follow(NULL);
    atomic_store(&meeting->is_over, true);
    return NULL;
}

/* Until it stops, or has come to its end. */
static void await(struct meeting *meeting)
{
    while (!freeze_is_on() && !atomic_load(&meeting->is_over))
        (void)sched_yield();
    expect(meeting, freeze_is_on(), "no thread ever stopped there");
}

static void start(struct meeting *meeting,
                  void (*work)(struct meeting *meeting), const char *step)
{
    meeting->work = work;
    meeting->wish = (struct freeze_wish){step, 1};
    (void)pthread_create(&meeting->thread, NULL, do_work, meeting);
    await(meeting);
}

/* The thread goes on until it has passed so many more steps. */
static void step_on(struct meeting *meeting, uint32_t visits)
{
    freeze_release_until(visits);
    await(meeting);
}

static void end(struct meeting *meeting)
{
    freeze_release();
    (void)pthread_join(meeting->thread, NULL);
}

/* What is done, by the buddy alone. */
static void finish(struct meeting *meeting, uint64_t start, uint64_t grains)
{
    atomic_fetch_sub_explicit(&meeting->held, grains, memory_order_relaxed);
    expect(meeting, buddy_probe_give(meeting->buddy, NULL, start, grains),
           "a give of what is done is refused");
}

/* The works of threads that stop. */

static void take_done(struct meeting *meeting)
{
    uint64_t grain;
    if (buddy_probe_take(meeting->buddy, NULL, 1, 1, 1, &grain) == 1)
        atomic_fetch_add_explicit(&meeting->held, 1, memory_order_relaxed);
    else
        expect(meeting, false, "a grain that is done cannot be taken");
}

static void claim_over_two_chunks(struct meeting *meeting)
{
    meeting->is_done = claim(meeting, 10, CHUNK);
}

static void close_epoch(struct meeting *meeting)
{
    (void)map_probe_close(meeting->maps);
}

static void take_a_grain(struct meeting *meeting)
{
    uint64_t start_of_one;
    meeting->is_done =
        map_probe_take(meeting->maps, 1, 1, 1, &start_of_one) == 1;
}

static void give_a_grain(struct meeting *meeting)
{
    give(meeting, 20, 1);
}

static void give_the_rest_of_a_chunk(struct meeting *meeting)
{
    give(meeting, 20, CHUNK - 20);
}

/* The meetings. */

/* What moves from map to map while a claim is under way is found in the next
 * one. */
static void move_during_a_claim(struct meeting *meeting)
{
    give(meeting, 10, CHUNK);
    start(meeting, claim_over_two_chunks, "claim.done");
    (void)map_probe_close(meeting->maps);
    (void)map_probe_drain(meeting->maps, PROBE_AGEING);
    end(meeting);
    expect(meeting, meeting->is_done, "a claim was passed by what it claims");
}

/* What a claim puts back is of no epoch that was closed before. */
static void put_back_after_a_drain(struct meeting *meeting)
{
    give(meeting, 10, CHUNK - 10);
    (void)map_probe_close(meeting->maps);
    start(meeting, claim_over_two_chunks, "claim.own");
    (void)map_probe_drain(meeting->maps, PROBE_AGEING);
    end(meeting);
    expect(meeting, !meeting->is_done, "a claim got what is not free");
    expect(meeting, ageing(meeting) == 0, "it was put into a drained epoch");
    expect(meeting, fresh(meeting) == CHUNK - 10, "it was not put back");
}

/* The ageing map never has more than it says. */
static void give_during_a_close(struct meeting *meeting)
{
    give(meeting, 0, 1);
    give(meeting, PAGE + 500, 1);
    give(meeting, 2 * PAGE, 1);
    start(meeting, close_epoch, "map.word_moved");
    give(meeting, PAGE, 100);
    /* Page 1 has a word of chunks and two of grains; then page 2. */
    step_on(meeting, 4);
    uint64_t there = map_probe_free_from(meeting->maps, PAGE, PAGE + 100);
    expect(meeting, there == 100, "a give that met a close is not there");
    expect(meeting, ageing(meeting) >= 102, "an ageing map says too little");
    end(meeting);
    expect(meeting, ageing(meeting) == 103, "a close counts wrong");
}

/* A hint is looked at after the word was set. */
static void lower_during_a_give(struct meeting *meeting)
{
    uint64_t start_of_one;
    give(meeting, 10, 1);
    start(meeting, give_a_grain, "map.give_picked");
    expect(meeting, map_probe_take(meeting->maps, 1, 1, 1, &start_of_one) == 1,
           "a grain is not found");
    atomic_fetch_add_explicit(&meeting->held, 1, memory_order_relaxed);
    end(meeting);
    expect(meeting, map_probe_take(meeting->maps, 1, 1, 1, &start_of_one) == 1,
           "a give that met a take is not found");
    atomic_fetch_add_explicit(&meeting->held, 1, memory_order_relaxed);
}

/* The thread that clears a hint looks at the word again. */
static void give_during_a_lowering(struct meeting *meeting)
{
    uint64_t start_of_one;
    give(meeting, 10, 1);
    start(meeting, take_a_grain, "map.lowering");
    give(meeting, 20, 1);
    end(meeting);
    expect(meeting, map_probe_take(meeting->maps, 1, 1, 1, &start_of_one) == 1,
           "a give that met a lowering is not found");
    atomic_fetch_add_explicit(&meeting->held, 2, memory_order_relaxed);
}

static void take_well(struct meeting *meeting)
{
    const struct map_probe_view own = {meeting->buddy, meeting->maps, true,
                                       true};
    uint64_t begin;
    meeting->is_done = map_probe_good_fit(&own, 100, 1, &begin);
    if (meeting->is_done)
        atomic_fetch_add_explicit(&meeting->held, 100, memory_order_relaxed);
}

/* A fit that goes before it is claimed; the search goes on to another. */
static void claim_during_a_good_fit(struct meeting *meeting)
{
    give(meeting, 10, 120);
    start(meeting, take_well, "index.looked");
    expect(meeting, claim(meeting, 20, 110), "what is free is refused");
    give(meeting, 2 * PAGE, 150);
    end(meeting);
    expect(meeting, meeting->is_done, "a search ends at a fit that has gone");
}

/* The bit of a page is off while one looks at it, and on where the fit is gone,
 * but not all of it. */
static void take_of_a_part_during_a_good_fit(struct meeting *meeting)
{
    give(meeting, 10, 220);
    start(meeting, take_well, "index.looked");
    uint64_t grain;
    expect(meeting, map_probe_take(meeting->maps, 1, 1, 1, &grain) == 1,
           "a grain is not found");
    atomic_fetch_add_explicit(&meeting->held, 1, memory_order_relaxed);
    end(meeting);
    expect(meeting, meeting->is_done, "what is left of a fit is not found");
}

/* A group's bit is cleared; who gives there meanwhile is found. */
static void give_during_a_clearing(struct meeting *meeting)
{
    give(meeting, 10, 100);
    expect(meeting, claim(meeting, 10, 100), "what is free is refused");
    start(meeting, take_well, "index.clearing");
    give(meeting, 10, 100);
    end(meeting);
    expect(meeting, !meeting->is_done, "what was claimed is found");
    take_well(meeting);
    expect(meeting, meeting->is_done,
           "a give that met a clearing is not found");
}

/* Two parts of a chunk that age one after the other merge. */
static void close_twice(struct meeting *meeting)
{
    give(meeting, 0, 30);
    (void)map_probe_close(meeting->maps);
    give(meeting, 30, CHUNK - 30);
    (void)map_probe_close(meeting->maps);
    expect(meeting, ageing(meeting) == CHUNK, "what aged is lost");
}

/* Above a page nothing is as good as an exact fit, wherever that is. */
static void take_a_long_run(struct meeting *meeting)
{
    const struct map_probe_view view = {meeting->buddy, meeting->maps, false,
                                        false};
    uint64_t begin = 0;
    give(meeting, 0, PAGE + 40);
    give(meeting, 2 * PAGE, PAGE + 20);
    expect(meeting,
           map_probe_view_take(&view, PAGE + 20, 1, false, &begin) &&
               begin == 2 * PAGE,
           "a long run is not the best fit");
    atomic_fetch_add_explicit(&meeting->held, PAGE + 20, memory_order_relaxed);
}

/* A page whose first grains come while a close is in it keeps its hints. */
static void give_first_grains_during_a_close(struct meeting *meeting)
{
    give(meeting, 0, CHUNK);
    start(meeting, close_epoch, "map.page_entered");
    give(meeting, 100, 5);
    end(meeting);
    expect(meeting, fresh(meeting) + ageing(meeting) == CHUNK + 5,
           "a page's first grains that met a close are lost");
}

/* A chunk that is neither in its word nor in the word above is not lost. */
static void close_during_a_merge(struct meeting *meeting)
{
    give(meeting, 0, 20);
    start(meeting, give_the_rest_of_a_chunk, "map.grains_given");
    (void)map_probe_close(meeting->maps);
    end(meeting);
    expect(meeting, fresh(meeting) == CHUNK,
           "a merge that met a close is lost");
}

/* A page of the stream's cannot be cut: the rest would have no words. */
static void claim_without_memory(struct meeting *meeting)
{
    give(meeting, PAGE, PAGE);
    failing_memory_arm(1);
    bool is_claimed = claim(meeting, PAGE + 10, 20);
    expect(meeting, !failing_memory_disarm(), "a claim needs no memory");
    expect(meeting, !is_claimed, "a claim succeeds without memory");
}

static bool is_set(atomic_bool *flag)
{
    return atomic_load_explicit(flag, memory_order_relaxed);
}

static void *write_and_give(void *argument)
{
    struct meeting *meeting = argument;
    meeting->payload = 1;
    give(meeting, 10, 20);
    atomic_store_explicit(&meeting->is_given, true, memory_order_relaxed);
    return NULL;
}

static void *move_what_was_given(void *argument)
{
    struct meeting *meeting = argument;
    while (!is_set(&meeting->is_given))
        (void)sched_yield();
    (void)map_probe_close(meeting->maps);
    atomic_store_explicit(&meeting->is_moved, true, memory_order_relaxed);
    return NULL;
}

/* The thread that moves a word passes on what its giver released, to the thread
 * that claims it. */
static void claim_what_another_moved(struct meeting *meeting)
{
    pthread_t giver;
    pthread_t mover;
    give(meeting, 40, 1); /* so that all hints are set */
    (void)pthread_create(&mover, NULL, move_what_was_given, meeting);
    (void)pthread_create(&giver, NULL, write_and_give, meeting);
    while (!is_set(&meeting->is_moved))
        (void)sched_yield();
    expect(meeting, claim(meeting, 10, 20), "what aged cannot be claimed");
    expect(meeting, meeting->payload == 1, "its last use is not over");
    meeting->payload = 2;
    (void)pthread_join(giver, NULL);
    (void)pthread_join(mover, NULL);
}

static void *write_and_finish(void *argument)
{
    struct meeting *meeting = argument;
    meeting->payload = 1;
    finish(meeting, 0, CHUNK);
    atomic_store_explicit(&meeting->is_given, true, memory_order_relaxed);
    return NULL;
}

static void *open_what_was_given(void *argument)
{
    struct meeting *meeting = argument;
    while (!is_set(&meeting->is_given))
        (void)sched_yield();
    take_done(meeting);
    atomic_store_explicit(&meeting->is_moved, true, memory_order_relaxed);
    return NULL;
}

/* The thread that opens a chunk passes on what its giver released, to the next
 * taker. */
static void take_what_another_opened(struct meeting *meeting)
{
    pthread_t giver;
    pthread_t opener;
    (void)pthread_create(&opener, NULL, open_what_was_given, meeting);
    (void)pthread_create(&giver, NULL, write_and_finish, meeting);
    while (!is_set(&meeting->is_moved))
        (void)sched_yield();
    take_done(meeting);
    expect(meeting, meeting->payload == 1, "its last use is not over");
    meeting->payload = 2;
    (void)pthread_join(giver, NULL);
    (void)pthread_join(opener, NULL);
}

struct kind {
    const char *name;
    void (*play)(struct meeting *meeting);
};

static const struct kind kinds[] = {
    {"MoveDuringAClaim", move_during_a_claim},
    {"PutBackAfterADrain", put_back_after_a_drain},
    {"GiveDuringAClose", give_during_a_close},
    {"LowerDuringAGive", lower_during_a_give},
    {"GiveDuringALowering", give_during_a_lowering},
    {"ClaimDuringAGoodFit", claim_during_a_good_fit},
    {"TakeOfAPartDuringAGoodFit", take_of_a_part_during_a_good_fit},
    {"GiveDuringAClearing", give_during_a_clearing},
    {"CloseTwice", close_twice},
    {"TakeALongRun", take_a_long_run},
    {"GiveFirstGrainsDuringAClose", give_first_grains_during_a_close},
    {"CloseDuringAMerge", close_during_a_merge},
    {"ClaimWhatAnotherMoved", claim_what_another_moved},
    {"TakeWhatAnotherOpened", take_what_another_opened},
    {"ClaimWithoutMemory", claim_without_memory},
};

size_t map_steps_count(void)
{
    return sizeof(kinds) / sizeof(kinds[0]);
}

const char *map_steps_name(size_t index)
{
    return kinds[index].name;
}

static void verify(struct meeting *meeting)
{
    const struct moietyi_maps *maps[] = {meeting->maps};
    uint64_t at;
    const char *broken = buddy_probe_check(meeting->buddy, &at);
    if (!broken)
        broken = map_probe_check(maps, 1, &at);
    expect(meeting, !broken, broken);
    expect(meeting,
           meeting->held + fresh(meeting) + ageing(meeting) +
                   buddy_probe_free_grains(meeting->buddy) ==
               PAGES * PAGE,
           "M5: grains are lost or doubled");
}

const char *map_steps_run(size_t index)
{
    struct meeting meeting = {0};
    if (buddy_probe_create(PAGES, &meeting.buddy) != 0)
        return "no memory";
    buddy_probe_add(meeting.buddy, 0, PAGES);
    meeting.maps = map_probe_create(meeting.buddy);
    expect(&meeting, meeting.maps && claim(&meeting, 0, PAGES * PAGE),
           "nothing to begin with");
    if (!meeting.failure) {
        kinds[index].play(&meeting);
        verify(&meeting);
    }
    map_probe_destroy(meeting.maps);
    buddy_probe_destroy(meeting.buddy);
    return meeting.failure;
}
