/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Each case begins with a few groups of pages of which nothing is free, and two
 * streams. Wrong places are kept as text, the first of them.
 */
#include "tests/buddy/good_fits.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "tests/support/buddy_probe.h"
#include "tests/support/map_probe.h"

/* More groups than one, and than the first leaf has. */
#define PAGES (UINT64_C(64) * 64 + 200)
#define CHUNK ((uint64_t)PROBE_CHUNK_GRAINS)
#define PAGE ((uint64_t)PROBE_PAGE_GRAINS)
#define NONE UINT64_MAX
/* What the index has; see pool/buddy/index.h. */
#define LEAST CHUNK
#define MOST (UINT64_C(1) << 22)

static char failure[200];

struct game {
    struct moietyi_buddy *buddy;
    struct moietyi_maps *maps;
    struct moietyi_maps *other;
};

static void fail(const char *what, uint64_t found, uint64_t wanted)
{
    if (!failure[0])
        (void)snprintf(failure, sizeof(failure), "step %s: %lld for %lld", what,
                       (long long)found, (long long)wanted);
}

static void expect(const char *what, uint64_t found, uint64_t wanted)
{
    if (found != wanted)
        fail(what, found, wanted);
}

static void give(struct game *game, uint64_t start, uint64_t grains)
{
    expect("give", map_probe_give(game->maps, start, grains), PROBE_GIVEN);
}

static void finish(struct game *game, uint64_t start, uint64_t grains)
{
    expect("finish", buddy_probe_give(game->buddy, NULL, start, grains), true);
}

static void take(const struct game *game, uint64_t start, uint64_t grains)
{
    const struct map_probe_view view = {game->buddy, game->maps, false, false};
    expect("claim", map_probe_view_claim(&view, start, grains), true);
}

static uint64_t good_fit(const struct map_probe_view *view, uint64_t grains,
                         uint32_t alignment)
{
    uint64_t start = NONE;
    (void)map_probe_good_fit(view, grains, alignment, &start);
    return start;
}

static uint64_t fit_for(const struct game *game, struct moietyi_maps *maps,
                        uint64_t grains)
{
    const struct map_probe_view view = {game->buddy, maps, false, true};
    return good_fit(&view, grains, 1);
}

/* By all that the first stream may take from; of done memory alone. */
static uint64_t fit(const struct game *game, uint64_t grains)
{
    return fit_for(game, game->maps, grains);
}

static uint64_t fit_done(const struct game *game, uint64_t grains)
{
    return fit_for(game, NULL, grains);
}

/* One run of each length is found for that length, and for no more. */
static void every_length(struct game *game)
{
    for (uint64_t grains = LEAST; grains <= MOST / 2;
         grains += grains / 21 + 1) {
        give(game, 3 * PAGE + 17, grains);
        expect("one more", fit(game, grains + 1), NONE);
        expect("as long", fit(game, grains), 3 * PAGE + 17);
        finish(game, 5, grains);
        expect("one more that is done", fit(game, grains + 1), NONE);
        expect("as long, done", fit(game, grains), 5);
    }
}

static void lengths_beyond(struct game *game)
{
    give(game, 0, 2 * MOST + 5);
    expect("less than a chunk", fit(game, LEAST - 1), NONE);
    expect("more than half of the most", fit(game, MOST / 2 + 1), NONE);
    expect("half of the most", fit(game, MOST / 2), 0);
    expect("of the rest", fit(game, MOST / 2), MOST / 2);
}

static void the_lowest_bin(struct game *game)
{
    give(game, 10 * PAGE, 1000);
    give(game, 70 * PAGE, 200);
    finish(game, 20 * PAGE, 300);
    finish(game, 140 * PAGE, 150);
    expect("of what is done", fit(game, 140), 140 * PAGE);
    expect("of the stream's own", fit(game, 140), 70 * PAGE);
    expect("the next bin", fit(game, 140), 20 * PAGE);
    expect("the last", fit(game, 140), 20 * PAGE + 140);
    expect("the last of all", fit(game, 140), 10 * PAGE);
}

/* In one bin; and its best of a few pages. */
static void its_own_before_what_is_done(struct game *game)
{
    finish(game, 10 * PAGE, 150);
    give(game, 70 * PAGE, 150);
    expect("the stream's own", fit(game, 150), 70 * PAGE);
    give(game, 71 * PAGE, 159);
    give(game, 72 * PAGE, 156);
    give(game, 73 * PAGE, 158);
    expect("the best of a bin", fit(game, 146), 10 * PAGE);
    expect("the best that is left", fit(game, 146), 72 * PAGE);
    expect("what was noted again", fit(game, 146), 73 * PAGE);
    expect("what was noted again, too", fit(game, 146), 71 * PAGE);
}

/* Of one page: the best is taken, the others are still known. */
static void several_in_a_page(struct game *game)
{
    give(game, PAGE + 3, 300);
    give(game, PAGE + 1000, 130);
    give(game, PAGE + 2000, 280);
    expect("the best", fit(game, 120), PAGE + 1000);
    expect("the next", fit(game, 260), PAGE + 2000);
    expect("the longest", fit(game, 260), PAGE + 3);
}

static void what_is_left_over(struct game *game)
{
    give(game, 100, 3 * PAGE);
    for (uint64_t i = 0; i < 10; i++)
        expect("one behind the other", fit(game, 1000), 100 + i * 1000);
    take(game, 11200, 100);
    expect("behind what was claimed", fit(game, 1000), 11300);
    expect("before what was claimed", fit(game, 1000), 10100);
    finish(game, 60 * PAGE, 8 * PAGE);
    uint64_t grain = NONE;
    (void)buddy_probe_take(game->buddy, NULL, 1, 1, 1, &grain);
    expect("a page was opened", grain, 60 * PAGE);
    expect("beside a page", fit_done(game, 7 * PAGE + 10), 60 * PAGE + 1);
}

static void aligned(struct game *game)
{
    const struct map_probe_view view = {game->buddy, game->maps, false, true};
    give(game, PAGE + 10, 300);
    expect("too short with what is skipped", good_fit(&view, 200, 256), NONE);
    give(game, 7 * PAGE + 10, 500);
    expect("the one that has room", good_fit(&view, 200, 256), 7 * PAGE + 256);
    expect("before it", fit(game, 240), 7 * PAGE + 10);
    expect("the first", fit(game, 300), PAGE + 10);
}

/* Runs that go on in other pages, groups and leaves, merged from parts. */
static void beyond_a_page(struct game *game)
{
    uint64_t border = 64 * 64 * PAGE;
    give(game, border, 3 * PAGE);
    give(game, border - 70 * PAGE + 9, 70 * PAGE - 9 - 500);
    give(game, border - 500, 500);
    expect("all", fit(game, 30 * PAGE), border - 70 * PAGE + 9);
    expect("the rest", fit(game, 30 * PAGE), border - 40 * PAGE + 9);
    expect("the end", fit(game, 12 * PAGE), border - 10 * PAGE + 9);
    expect("what is left", fit(game, PAGE - 9), border + 2 * PAGE + 9);
}

/* A run is noted with what it merges with. */
static void merged(struct game *game)
{
    give(game, 10, 100);
    give(game, 110, 100);
    expect("behind another", fit(game, 200), 10);
    finish(game, 5 * PAGE + 100, 100);
    finish(game, 5 * PAGE, 100);
    expect("before another", fit(game, 200), 5 * PAGE);
    give(game, 10 * PAGE, 3 * PAGE);
    give(game, 13 * PAGE, 3000);
    expect("behind pages", fit(game, 3 * PAGE + 2900), 10 * PAGE);
    give(game, 21 * PAGE, 3 * PAGE);
    give(game, 21 * PAGE - 3000, 3000);
    expect("before pages", fit(game, 3 * PAGE + 2900), 21 * PAGE - 3000);
}

/* It is found where it is now, and nowhere else. */
static void moved(struct game *game)
{
    const struct map_probe_view other = {game->buddy, game->other, true, true};
    give(game, PAGE, 2 * PAGE);
    give(game, 5 * PAGE + 7, 3000);
    expect("a close", map_probe_close(game->maps), 2 * PAGE + 3000);
    expect("ageing", fit(game, 3000), 5 * PAGE + 7);
    (void)map_probe_drain(game->maps, PROBE_AGEING);
    expect("done", fit_done(game, 2 * PAGE), PAGE);
    give(game, 9 * PAGE + 7, 3000);
    (void)map_probe_hand(game->maps, PROBE_FRESH, game->other);
    expect("no more", fit(game, 3000), NONE);
    expect("the other's", good_fit(&other, 3000, 1), 9 * PAGE + 7);
}

/* Runs of the first bin that are too short do not hide those of the next. */
static void too_short_in_the_first_bin(struct game *game)
{
    for (uint64_t i = 0; i < 40; i++)
        give(game, i * PAGE, 130);
    give(game, 50 * PAGE, 170);
    expect("the next bin's", fit(game, 143), 50 * PAGE);
    expect("none", fit(game, 143), NONE);
}

/* What was taken elsewhere is passed, and found again when it is free. */
static void gone(struct game *game)
{
    for (uint64_t i = 0; i < 8; i++)
        give(game, i * PAGE, 500);
    for (uint64_t i = 0; i < 8; i++)
        take(game, i * PAGE, 500);
    expect("nothing", fit(game, 400), NONE);
    give(game, 5 * PAGE, 500);
    expect("again", fit(game, 400), 5 * PAGE);
}

/* There are few long runs: the best of all is taken, not of a few. */
static void long_ones(struct game *game)
{
    for (uint64_t i = 0; i < 7; i++)
        give(game, i * 100 * PAGE, 35 * PAGE - i * 100);
    expect("the best", fit(game, 33 * PAGE), 600 * PAGE);
    expect("the next", fit(game, 33 * PAGE), 500 * PAGE);
}

/* However many pages it is gone from. */
static void gone_from_many(struct game *game)
{
    for (uint64_t i = 0; i < 300; i++) {
        give(game, i * PAGE, 500);
        finish(game, i * PAGE + 600, 490);
    }
    finish(game, 400 * PAGE, 700);
    for (uint64_t i = 0; i < 300; i++) {
        take(game, i * PAGE, 500);
        take(game, i * PAGE + 600, 490);
    }
    expect("what is left", fit(game, 400), 400 * PAGE);
}

/* The best fit has no index: a run that begins in a group's last page, or ends in a
 * group's first. */
static void best_over_a_border(struct game *game)
{
    const struct map_probe_view view = {game->buddy, game->maps, false, false};
    uint64_t border = 64 * PAGE;
    uint64_t start = NONE;
    give(game, border - 100, 2 * PAGE + 100);
    (void)map_probe_view_take(&view, 2 * PAGE + 100, 1, false, &start);
    expect("from the last page", start, border - 100);
    start = NONE;
    give(game, 2 * border - 2 * PAGE, 2 * PAGE + 100);
    (void)map_probe_view_take(&view, 2 * PAGE + 100, 1, false, &start);
    expect("into the first page", start, 2 * border - 2 * PAGE);
}

/* A long run whose only whole page is whole in two maps together. */
static void best_of_two_maps(struct game *game)
{
    const struct map_probe_view view = {game->buddy, game->maps, false, false};
    uint64_t page = 11 * PAGE;
    uint64_t start = NONE;
    give(game, page - PAGE / 2, PAGE);
    finish(game, page + PAGE / 2, PAGE / 2);
    give(game, page + PAGE, PAGE / 2);
    (void)map_probe_view_take(&view, 2 * PAGE, 1, false, &start);
    expect("from within a page", start, page - PAGE / 2);
}

/* A stream's own run goes on in what is done. What is done later is noted with the
 * stream's next free there. */
static void joined(struct game *game)
{
    finish(game, 3 * PAGE + 1000, 1000);
    give(game, 3 * PAGE, 1000);
    expect("not of done memory alone", fit_done(game, 1500), NONE);
    expect("from its own into what is done", fit(game, 2000), 3 * PAGE);
    give(game, 9 * PAGE, 1000);
    give(game, 9 * PAGE - 700, 200);
    finish(game, 9 * PAGE - 500, 500);
    expect("one more", fit(game, 1701), NONE);
    give(game, 9 * PAGE + 1000, 1);
    expect("from its own, over done, to its own", fit(game, 1701),
           9 * PAGE - 700);
}

/* What is left of a run that was joined is noted with both. */
static void joined_left_over(struct game *game)
{
    finish(game, 5 * PAGE, 2000);
    give(game, 5 * PAGE + 2000, 2000);
    take(game, 5 * PAGE + 1800, 400);
    expect("in front", fit(game, 1800), 5 * PAGE);
    expect("behind", fit(game, 1800), 5 * PAGE + 2200);
}

/* Nobody who must not take what is done gets a part of it. */
static void joined_own_only(struct game *game)
{
    const struct map_probe_view own = {game->buddy, game->maps, true, true};
    uint64_t start = NONE;
    finish(game, 5 * PAGE, 2000);
    give(game, 5 * PAGE + 2000, 500);
    expect("by the index", good_fit(&own, 600, 1), NONE);
    (void)map_probe_view_take(&own, 600, 1, false, &start);
    expect("by all words", start, NONE);
    (void)map_probe_view_take(&own, 500, 1, false, &start);
    expect("its own", start, 5 * PAGE + 2000);
}

/* The stream's own at either end of a run, and what is left is noted with both. */
static void own_at_the_ends(struct game *game)
{
    const struct map_probe_view own = {game->buddy, game->maps, true, true};
    finish(game, 3 * PAGE + 1000, 1000);
    give(game, 3 * PAGE, 1000);
    finish(game, 5 * PAGE, 700);
    give(game, 5 * PAGE + 700, 1300);
    expect("in front of what is done", good_fit(&own, 900, 1), 3 * PAGE);
    expect("behind what is done", good_fit(&own, 1100, 1), 5 * PAGE + 700);
    expect("the rest, and what is done", fit(game, 1100), 3 * PAGE + 900);
    expect("the other rest", fit(game, 200), 5 * PAGE + 1800);
}

/* A run that is passed by, and one that is worse than another of its page. */
static void own_passed_by(struct game *game)
{
    const struct map_probe_view own = {game->buddy, game->maps, true, true};
    finish(game, 9 * PAGE + 100, 2000);
    give(game, 9 * PAGE, 100);
    expect("its own is too short", good_fit(&own, 1000, 1), NONE);
    expect("both", fit(game, 2100), 9 * PAGE);
    finish(game, 20 * PAGE + 1110, 100);
    give(game, 20 * PAGE, 1110);
    finish(game, 20 * PAGE + 2705, 100);
    give(game, 20 * PAGE + 1600, 1105);
    expect("the shorter one", good_fit(&own, 1100, 1), 20 * PAGE + 1600);
    expect("the longer one, and what is done", fit(game, 1210), 20 * PAGE);
}

/* So many runs were its own and are done that a search gives up; the next one does
 * not meet them again. */
static void own_no_more(struct game *game)
{
    const struct map_probe_view own = {game->buddy, game->maps, true, true};
    for (uint64_t i = 0; i < 40; i++)
        give(game, i * PAGE, 1000);
    expect("a close", map_probe_close(game->maps), 40000);
    (void)map_probe_drain(game->maps, PROBE_AGEING);
    give(game, 50 * PAGE, 1100);
    expect("too many", good_fit(&own, 900, 1), NONE);
    expect("its own", good_fit(&own, 900, 1), 50 * PAGE);
}

/* A search of both kinds notes what it leaves of what is done for a search of that
 * alone. */
static void done_left_over(struct game *game)
{
    finish(game, 3 * PAGE, 1500);
    take(game, 3 * PAGE + 400, 200);
    expect("in front", fit_done(game, 400), 3 * PAGE);
    finish(game, 5 * PAGE, 1500);
    take(game, 5 * PAGE + 300, 200);
    expect("behind", fit_done(game, 1000), 5 * PAGE + 500);
    finish(game, 20 * PAGE, 200);
    finish(game, 30 * PAGE, 204);
    expect("the shorter one", fit(game, 150), 20 * PAGE);
    expect("the longer one", fit_done(game, 204), 30 * PAGE);
}

/* Long ones too: an index is enough for them. */
static void joined_long(struct game *game)
{
    finish(game, 17 * PAGE, 5 * PAGE);
    give(game, 10 * PAGE, 7 * PAGE);
    give(game, 40 * PAGE, 11 * PAGE);
    expect("the shorter one", fit(game, 11 * PAGE), 40 * PAGE);
    expect("the other", fit(game, 12 * PAGE), 10 * PAGE);
}

/* What is done is not cut out of the middle of what it is joined with. */
static void joined_on_both_sides(struct game *game)
{
    give(game, 3 * PAGE, 200);
    finish(game, 3 * PAGE + 200, 300);
    expect("from where its own begins", fit(game, 280), 3 * PAGE);
    give(game, 20 * PAGE, 200);
    finish(game, 20 * PAGE + 200, 300);
    give(game, 30 * PAGE, 320);
    expect("a run that is shorter than both", fit(game, 290), 30 * PAGE);
    expect("both", fit(game, 290), 20 * PAGE);
}

struct kind {
    const char *name;
    void (*play)(struct game *game);
};

static const struct kind kinds[] = {
    {"EveryLength", every_length},
    {"LengthsBeyond", lengths_beyond},
    {"TheLowestBin", the_lowest_bin},
    {"ItsOwnBeforeWhatIsDone", its_own_before_what_is_done},
    {"SeveralInAPage", several_in_a_page},
    {"WhatIsLeftOver", what_is_left_over},
    {"Aligned", aligned},
    {"BeyondAPage", beyond_a_page},
    {"Merged", merged},
    {"Moved", moved},
    {"TooShortInTheFirstBin", too_short_in_the_first_bin},
    {"Gone", gone},
    {"LongOnes", long_ones},
    {"GoneFromMany", gone_from_many},
    {"BestOverABorder", best_over_a_border},
    {"BestOfTwoMaps", best_of_two_maps},
    {"Joined", joined},
    {"JoinedLeftOver", joined_left_over},
    {"JoinedOwnOnly", joined_own_only},
    {"OwnAtTheEnds", own_at_the_ends},
    {"OwnPassedBy", own_passed_by},
    {"OwnNoMore", own_no_more},
    {"DoneLeftOver", done_left_over},
    {"JoinedLong", joined_long},
    {"JoinedOnBothSides", joined_on_both_sides},
};

size_t good_fits_count(void)
{
    return sizeof(kinds) / sizeof(kinds[0]);
}

const char *good_fits_name(size_t index)
{
    return kinds[index].name;
}

const char *good_fits_run(size_t index)
{
    struct game game = {0};
    failure[0] = 0;
    if (buddy_probe_create(PAGES, &game.buddy) != 0)
        return "no memory";
    buddy_probe_add(game.buddy, 0, PAGES);
    game.maps = map_probe_create(game.buddy);
    game.other = map_probe_create(game.buddy);
    const struct map_probe_view done = {game.buddy, NULL, false, false};
    if (game.maps && game.other && map_probe_view_claim(&done, 0, PAGES * PAGE))
        kinds[index].play(&game);
    else
        fail("begin", 0, PAGES);
    map_probe_destroy(game.other);
    map_probe_destroy(game.maps);
    buddy_probe_destroy(game.buddy);
    return failure[0] ? failure : NULL;
}
