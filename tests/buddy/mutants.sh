#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# mutants.sh buddy|maps
#
# Changes the buddy, or the maps of streams, for the worse, one place at a time,
# in a copy of their sources, and expects a model, a race or a meeting of two
# threads to notice. A mutant that survives fails this test; so does a change
# that no longer applies to the sources. Threads that race may miss one another on
# a busy machine: a mutant has survived only where all goes well TRIES times.
set -uo pipefail

cc=${CC:-cc}
work=${TEST_TMPDIR:?}
flags=(-std=c11 -O1 -pthread -I. -Ipool/include -DMOIETYI_STEPS=1)
wraps=(-Wl,--wrap={malloc,calloc,realloc,aligned_alloc,mmap})
tsan=(-g -fsanitize=thread)
product=(pool/buddy/{buddy,check,give,affinity,runs,summary,take,walk}.c
    pool/buddy/{claim,extent,fit,index,map,map_take}.c pool/base/table.c
    tests/support/{buddy_probe,map_probe}.c)
drivers=(tests/buddy/{byte_map,good_fits,model,mutant_driver}.c
    tests/buddy/maps/{map_model,map_steps}.c
    tests/buddy/races/{map_race,race,race_arena,race_match,race_streams}.c
    tests/progress/freeze.c tests/support/tools/failing_memory.c
    tests/oracle/mutex_buddy.c)
more=()
part=buddy # what a mutant is of: buddy or maps
plays=()   # what the driver plays: all, "maps" or "races"
wanted=${1:?usage: mutants.sh buddy|maps}
failures=0
TRIES=10
export TSAN_OPTIONS="halt_on_error=1 exitcode=66"

fail() {
    printf 'FAILED  %s\n' "$1"
    failures=$((failures + 1))
}

# $1: folder for a fresh copy of the sources. Every atomic operation in it may
# first let another thread run.
copy_sources() {
    rm -rf "$1"
    mkdir -p "$1/pool" "$1/tests/support"
    cp -rL pool/base pool/buddy pool/include "$1/pool/"
    cp -L tests/support/{buddy,map}_probe.[ch] "$1/tests/support/"
    chmod -R u+w "$1"
    sed -i -e 's|^{$|{ perturb();|' \
        -e 's|^typedef _Atomic|void perturb(void);\n&|' \
        "$1/pool/base/atomics.h"
}

# $1: folder with sources; $2...: those to compile. Makes its driver.
build() {
    (cd "$1" && "$cc" "${flags[@]}" "${more[@]}" -c "${@:2}") &&
        "$cc" "${flags[@]}" "${more[@]}" "${wraps[@]}" "$work"/drivers/*.o \
            "$1"/*.o -o "$1/driver"
}

build_drivers() {
    local source
    rm -rf "$work/drivers"
    mkdir "$work/drivers"
    for source in "${drivers[@]}"; do
        "$cc" "${flags[@]}" "${more[@]}" -c "$source" \
            -o "$work/drivers/$(basename "$source").o" || return
    done
}

# From here on compile with these flags, under which the unchanged sources must
# pass.
with_flags() {
    more=("$@")
    copy_sources "$work/control"
    if build_drivers >"$work/log" 2>&1 &&
        build "$work/control" "${product[@]}" >>"$work/log" 2>&1 &&
        "$work/control/driver" 1 "${plays[@]}" >>"$work/log" 2>&1; then
        printf 'passes  no change %s\n' "$*"
    else
        fail "the unchanged sources fail"
        cat "$work/log"
    fi
}

# $1: what the mutant does; $2: the file; $3: a sed script that makes it so. Of
# the other files it has the objects that nothing was changed in.
mutant() {
    local folder=$work/mutant changed=("$2") result try
    [ "$part" = "$wanted" ] || return 0
    [[ $2 == *.c ]] || changed=("${product[@]}")
    copy_sources "$folder"
    cp "$folder/$2" "$work/before"
    sed -i -E "$3" "$folder/$2"
    if cmp -s "$work/before" "$folder/$2"; then
        fail "$1: does not apply to $2"
        return
    fi
    cp "$work"/control/*.o "$folder/"
    if ! build "$folder" "${changed[@]}" >"$work/log" 2>&1; then
        fail "$1: does not compile"
        cat "$work/log"
        return
    fi
    for ((try = 1; try <= TRIES; try++)); do
        "$folder/driver" 8 "${plays[@]}" >"$work/log" 2>&1
        result=$?
        [ "$result" = 0 ] || break
    done
    case $result in
    1 | 66) # the driver's own verdict, or the sanitizer's
        printf 'killed  %s: %s\n' "$1" \
            "$(grep -m1 -E 'round|step|WARNING' "$work/log")"
        ;;
    0) fail "$1: survived" ;;
    *) fail "$1: ended with $result" ;;
    esac
}

# One that only threads that meet can notice.
race_mutant() {
    local plays=(races)
    mutant "$@"
}

give=pool/buddy/give.c
affinity=pool/buddy/affinity.c
take=pool/buddy/take.c
runs=pool/buddy/runs.c
summary=pool/buddy/summary.c
map=pool/buddy/map.c
map_state=pool/buddy/map_state.h
map_take=pool/buddy/map_take.c
claim=pool/buddy/claim.c
fit=pool/buddy/fit.c
index=pool/buddy/index.c
extent=pool/buddy/extent.c
bins=pool/buddy/index.h
word=pool/buddy/word.h
base=pool/base/atomics.h

with_flags

# Giving.
mutant "a full word is never coalesced" $give \
    's/== MOIETYI_WORD_FULL && coalesces/== 0/'
mutant "the bit above is set, the word stays full" $give \
    's/filling\.after = .*/filling.after = filled;/'
race_mutant "a word is coalesced by a second store" $give \
    's/filling\.after = .*/filling.after = filled;/
     s/^    filling\.is_given = true;/    if (filling.is_coalesced) moietyi_store_release(word, 0);\n&/'
mutant "a word is coalesced without setting the bit above" $give \
    's/return moietyi_give_pages\(.*,$/return true; (void)(/
     s/^( +)\*coalesced \|=.*/\1(void)coalesced;/'
mutant "a chunk that a part fills is not given with the whole ones" $give \
    's/whole \| coalesced/whole/'
mutant "what is free may be given again" $give \
    's/if \(filling\.before & mask\)/if (0)/'
race_mutant "a give is a load and a store" $give \
    's/while \(!moietyi_cas_seq_cst\(word, &filling\.before, (.*)\)\);/while (moietyi_store_release(word, \1), 0);/'
mutant "the tail of an interval is not given" $give \
    's/while \(at < end && is_given\)/while (at + 63 < end \&\& is_given)/'

# Taking.
mutant "too little is taken out of a word" $take \
    's/seen & ~picked\)/seen \& ~start_bit_of(picked))/
     s/^static uint32_t take_from_chunk/static uint64_t start_bit_of(uint64_t b) { return b \& (0 - b); }\n&/'
race_mutant "a take is a load and a store" $take \
    's/while \(!moietyi_cas_acquire\(word, &seen, (.*)\)\);/while (moietyi_store_release(word, \1), 0);/'
mutant "an opened chunk still offers what was taken" $take \
    's/(chunk_words\[chunk.index\], )~picked/\1MOIETYI_WORD_FULL/'
mutant "an opened page still offers what was taken" $take \
    's/(pages\[page.index\].word, )rest/\1MOIETYI_WORD_FULL/'
mutant "what a carved chunk has left is forgotten" $take \
    's/if \(room\)/if (0)/'
mutant "alignment within a chunk is ignored" $take \
    's/moietyi_word_aligned\(what->alignment\)/MOIETYI_WORD_FULL/'
mutant "alignment of chunks is ignored" $take \
    's/moietyi_word_aligned\(chunk_alignment.*\)/MOIETYI_WORD_FULL/'
race_mutant "the word that is left stays open" $affinity \
    's/if \(left_plus_one\)/if (0)/'
mutant "runs of a batch may overlap" $word \
    's/start \+ length < 64U \?/start < 63U ?/; s/<< \(start \+ length\)/<< (start + 1)/'
mutant "a run is found one unit too short" $word \
    's/word >> \(length - covered\)/word >> (length - covered - 1)/'

# Runs of pages.
race_mutant "a run claimed in part is not undone" $runs \
    's/^        give_words\(.*i\);//'
mutant "a run takes pages that are busy" $runs \
    's/if \(\(seen & mask\) != mask\)/if (0)/'

# Summaries.
mutant "a run of grains is not raised" $summary \
    '/^void moietyi_summary_raise_chunk/,/^}/s/ raise_chunk\(.*/ ;/'
mutant "a run of chunks is not raised" $summary \
    '/^void moietyi_summary_raise_page/,/^}/s/ raise_page\(.*/ ;/'
mutant "a raise stops below the page" $summary \
    '/^static void raise_chunk/,/^}/s/raise_grain_page\(.*/;/'
race_mutant "grains are lowered without another look" $summary \
    '/^void moietyi_summary_lower_chunks/,/^}/s/ raise_chunk\(.*/ ;/'
mutant "a bit that is clear is taken for set" $summary \
    's/if \(!\(moietyi_load_seq_cst\(summary\) & bit\)\)/if (0)/'
race_mutant "chunks are lowered without another look" $summary \
    '/^void moietyi_summary_lower_page/,/^}/s/^        raise_page\(.*/;/'
race_mutant "a page is lowered without another look" $summary \
    '/^void moietyi_summary_lower_grain_page/,/^}/s/^        raise_grain_page\(.*/;/'

# Trim.
mutant "a closed chunk is given to nobody" $give \
    '/^void moietyi_close_chunk/,/^}/s/if \((close_word.*)\)$/if (\1 \&\& 0)/'
race_mutant "a word is closed by a store" $give \
    's/if \(moietyi_cas_acq_rel\(word, &full, 0\)\)/if (moietyi_store_release(word, 0), true)/'
mutant "a trim passes over words of grains" $give \
    's/^            trim_chunks\(buddy, .*/            ;/'
mutant "a trim passes over words of chunks" $give \
    '/^void moietyi_buddy_trim/,/^}/s/^            moietyi_close_page\(buddy, .*/            ;/'
mutant "a trim passes over the first word of grains of a page" $give \
    '/^static void trim_chunks/,/^}/s/for \(; chunks;/for (chunks \&= chunks - 1; chunks;/'

# What only a stream's maps and views do. That a search respects who has the run
# lock is about progress: a mutant that does not would lose nothing.
part=maps plays=(maps)

# Giving to a stream.
mutant "a full word of a map is never coalesced" $map \
    's/after == MOIETYI_WORD_FULL && coalesces/0/'
mutant "a word of a map is coalesced without setting the bit above" $map \
    's/^        \*coalesced \|= bit;/        ;/'
mutant "a chunk is coalesced and the page's word refuses" $map \
    's/if \(give_chunks\(group, MOIETYI_FRESH, page_bit, cut.chunks \| coalesced\)\)/if (0)/'
mutant "what is free on a stream may be given again" $map \
    's/if \(seen & mask\)/if (0)/'
mutant "a give to a stream is a load and a store" $map \
    's/while \(!moietyi_cas_seq_cst\(word, &seen, after\)\);/while (moietyi_store_release(word, after), 0);/'
mutant "a hint is looked at before the word is set" $map \
    '/^static unsigned give_part/,/^}/{
        s/^    enum filling filling =$/    moietyi_map_hint(\&group->page[page_bit].cut[age], bit);\n    moietyi_map_hint(\&group->open[age], UINT64_C(1) << page_bit);\n&/
        s/^        moietyi_map_hint.*/        ;/ }'
mutant "a hint that is clear is taken for set" $map_state \
    's/if \(!\(moietyi_load_seq_cst\(hint\) & bit\)\)/if (0)/'
mutant "a give counts nothing" $map \
    '/^enum moietyi_map_give moietyi_maps_give/,/^}/s/^    add_grains\(.*, grains\);/    ;/'

# Moving on.
mutant "a move copies a word and then clears it" $map \
    's/uint64_t mask = atomic_exchange_explicit\(word, 0, memory_order_seq_cst\);/uint64_t mask = moietyi_load_relaxed(word); moietyi_store_relaxed(word, 0);/'
mutant "a move clears a word after it has given its bits" $map \
    's/uint64_t mask = atomic_exchange_explicit\(word, 0, memory_order_seq_cst\);/uint64_t mask = moietyi_load_relaxed(word);/
     s/^        move->pages\((.*)\);/(move->pages(\1), moietyi_and_seq_cst(\&group->pages[move->from], ~mask));/
     s/^        move->chunks\((.*)\);/(move->chunks(\1), moietyi_and_seq_cst(\&words->chunks[move->from], ~mask));/
     s/^            move->grains\((.*)\);/(move->grains(\1), moietyi_and_seq_cst(\&parts->grains[chunk][move->from], ~mask));/'
mutant "hints are cleared after the words are taken" $map \
    '/^static void move_group/,/^}/{
        s/take_hints\(&group->open\[move->from\]\)/moietyi_load_relaxed(\&group->open[move->from])/
        s/^}/    moietyi_store_relaxed(\&group->open[move->from], 0);\n}/ }'
mutant "what ages is counted when all of it has" $map \
    '/^static void add_aged/,/^}/s/moietyi_word_count\(mask\)/0 * mask/
     /^uint64_t moietyi_maps_close/,/^}/s/return move_all\(&move\);/uint64_t moved = move_all(\&move); add_grains(maps, MOIETYI_AGEING, moved); return moved;/'
mutant "what has aged has no hint" $map \
    '/^static unsigned give_part/,/^}/s/^        moietyi_map_hint\(&group->page/        if (age == MOIETYI_FRESH) &/'
mutant "what has aged does not merge" $map \
    's/&parts->grains\[chunk\]\[age\], mask, true/\&parts->grains[chunk][age], mask, age == MOIETYI_FRESH/'
mutant "an ageing page is not done" $map \
    's/\(void\)moietyi_give_pages\(.*/(void)move; (void)group; (void)mask;/'

# Taking from a stream's words.
mutant "a word is lowered without another look" $map_take \
    '/^static void lower/,/^}/s/^        moietyi_map_hint/        if (0) &/'
mutant "a take from a stream counts nothing" $map_take \
    's/moietyi_word_count\(picked\), memory/0, memory/'
mutant "alignment above a chunk is ignored" $map_take \
    's/base & \(alignment - 1\) \?/0 * base ?/'

# Claims.
mutant "a claim has bits that it did not clear" $map_state \
    's/return atomic_fetch_and_explicit\((.*)\) & mask;/(void)atomic_fetch_and_explicit(\1); return mask;/'
mutant "a claim takes what is done first" $claim \
    '/^static uint64_t claim_bits/,/^}/{
        s/^\{/{ uint64_t first = level->done ? moietyi_word_claim(level->done, mask) : 0; note_bits(claim, true, level->base, level->unit, first); mask \&= ~first; MOIETYI_STEP("claim.done");/
        s/level->done && mask \?/0 \&\& mask ?/ }'
mutant "a claim goes on without what is gone" $claim \
    's/claim->is_failed \|= (.*) != 0;/(void)(\1);/'
mutant "a claim gives all back as done" $claim \
    '/^static void claim_give_back/,/^}/s/if \(is_done\)/if (1)/'
mutant "a claim gives all back as the stream's" $claim \
    '/^static void claim_give_back/,/^}/s/if \(is_done\)/if (!view->maps)/'
mutant "a claim gives back into the ageing map" $claim \
    's/return !claim\.is_failed;/if (claim.is_failed \&\& view->maps) (void)moietyi_maps_close(view->maps); return !claim.is_failed;/'
mutant "a claim that fails keeps what it has" $claim \
    's/claim\.is_failed && i < claim\.count/0 \&\& i < claim.count/'
mutant "the rest of a unit is not given back" $claim \
    's/^        claim_give_back\(claim, is_done, end,.*/        ;/'
mutant "a unit is cut without words for its rest" $claim \
    's/!is_done && !moietyi_maps_prepare/!is_done \&\& 0 \&\& !moietyi_maps_prepare/'
mutant "a claim of a unit counts nothing" $claim \
    's/^            count_off\(claim, age, level->unit\);/            ;/'

# Searches of a view.
mutant "the first run that fits is taken, not the best" $fit \
    's/run->grains < scan->best\.grains/0/'
mutant "a search ignores alignment" pool/buddy/extent.h \
    's/want->grains \+ skipped;/want->grains + 0 * skipped;/'
mutant "a search sees no ends of cut chunks" $fit \
    's/\? moietyi_word_ends\(grains\)/? 0 * moietyi_word_ends(grains)/'
mutant "a search passes pages beside whole ones" $fit \
    's/return whole \| whole << 1 \| whole >> 1 \| ends;/return whole | ends;/'
mutant "a search passes the last page of a group" $fit \
    's/UINT64_C\(1\) << \(MOIETYI_WORD_BITS - 1\) \| 1;/1;/'
mutant "a search passes the first page of a group" $fit \
    's/<< \(MOIETYI_WORD_BITS - 1\) \| 1;/<< (MOIETYI_WORD_BITS - 1);/'
mutant "a search passes pages that are whole in two maps" $fit \
    's/\(open\[MOIETYI_FRESH\] & open\[DONE\]\) \|$/0 |/'
mutant "a long run may leave something over" $fit \
    's/needed > MOIETYI_PAGE_GRAINS \?/0 ?/'
mutant "a search sees no chunks of the stream" $fit \
    '/^static void scan_page/,/^}/s/moietyi_page_words_chunks\(&words\)/(scan->view->is_own_only ? 0 : moietyi_load_relaxed(\&words.done->pages[page.index].word))/'

# The index, and good fits by it.
mutant "a bin has no runs as short as its least" $bins \
    's/\(part << /((part + 1) << /'
mutant "a run is noted a bin too high" $index \
    's/unsigned bin = moietyi_index_bin\(grains\);/unsigned bin = moietyi_index_bin(grains + grains \/ 8);/'
mutant "a run is noted where it ends" $index \
    's/moietyi_grain_at\(start\)/moietyi_grain_at(start + grains)/'
mutant "a group is not named" $index \
    's/^    set\(&leaf->groups.*/    ;/'
mutant "a bin is not named" $index \
    's/^    set\(&leaf->bins.*/    ;/'
mutant "who clears a bit does not look again" $index \
    's/if \(moietyi_load_relaxed\(below\)\)/if (0)/'
mutant "what is freed is noted alone" $index \
    '/^void moietyi_index_note_around/,/^}/s/moietyi_run_around\(kind, start, end\)/{start, end - start}/'
mutant "the left side of what was taken is not noted" $index \
    '/^void moietyi_index_note_left/,/^}/s/^    moietyi_index_note\(kind, first, start - first\);/    (void)first;/'
mutant "the right side of what was taken is not noted" $index \
    '/^void moietyi_index_note_right/,/^}/s/^    moietyi_index_note\(kind, end.*/    (void)kind, (void)end;/'
mutant "a search begins in the next bin" $fit \
    's/search->first_bin = moietyi_index_bin\(grains\)/search->first_bin = moietyi_index_bin(grains) + 1/'
mutant "a search ends in the first bin" $fit \
    's/\{at->bin \+ 1, 0\}/{MOIETYI_INDEX_BINS, 0}/'
mutant "a search ends at a fit that is gone" $fit \
    's/while \(!good_fit_claim\(&best, out\)\)/while (!good_fit_claim(\&best, out) \&\& 0)/'
mutant "pages from which all has gone are counted" $fit \
    's/search->visits \+= visit->has_runs;/search->visits++;/'
mutant "runs that a look leaves are not noted" $fit \
    '/^static void good_fit_end_run/,/^}/s/^    note_fit\(visit.*/    ;/'
mutant "the best of a few long runs is taken" $fit \
    's/return want->grains > LONG_GRAINS;/return 0 * want->grains;/'
mutant "what is done is cut out of the middle of a run" $fit \
    's/if \(visit->reach != visit->kind\)/if (0)/'
mutant "a run that is shorter than what was joined is passed" $fit \
    's/\|\| bin <= moietyi_index_bin\(.*/\&\& bin;/'
mutant "what is done is not noted again where it is joined" $fit \
    's/^        moietyi_index_note\(visit->kind, whole/        if (0) &/'
mutant "a fit that is not the best is not noted" $fit \
    '/^static bool good_fit_find/,/^}/s/^            note_fit\(&visit.*/            ;/'
mutant "the first fit of a bin is taken" $fit \
    's/#define FITS 4U/#define FITS 1U/'
mutant "the worst fit of a page is taken" $fit \
    's/fit\.grains < visit->best\.grains/fit.grains > visit->best.grains/'
mutant "who may have the stream's own alone gets what is done" $fit \
    's/visit->own \? own_end\(visit->own, &whole\) : whole/whole/
     s/\.is_own_only = visit->own != NULL/.is_own_only = false/'
mutant "what was found joined is claimed of the stream's own alone" $fit \
    's/\.is_own_only = visit->own != NULL/.is_own_only = kind->maps != NULL/'
mutant "of the stream's own alone only the begin of a run is found" $fit \
    's/return first >= last \?/return 1 ?/'
mutant "of the stream's own alone only the end of a run is found" $fit \
    's/return first >= last \?/return last < last ?/'
mutant "a run of which nothing is the stream's any more stays in its index" $fit \
    's/if \(!fit\.grains\)/if (0)/'
mutant "who passes a run for its own alone notes its own part of it" $fit \
    's/if \(visit->own && fit->grains\)/if (0)/'
mutant "what is done goes before the stream's own" $fit \
    's/bin > search->first_bin && next_bin\(search, 1\) < bin/next_bin(search, 1) <= bin/'
mutant "a run ends with its page" $extent \
    '/^static uint64_t extent_end/,/^}/s/while \(at < limit\)/limit = at \/ MOIETYI_PAGE_GRAINS * MOIETYI_PAGE_GRAINS + MOIETYI_PAGE_GRAINS; while (at < limit)/'
mutant "a run has no whole pages before it" $extent \
    '/^static uint64_t extent_start/,/^}/s/if \(whole\)/if (0 \&\& whole)/'
mutant "a run is read of one map" pool/buddy/extent.h \
    's/age < MOIETYI_AGES/age < 1/'
mutant "what is done is not noted where it came from a stream" $map \
    '/^static void note_done/,/^}/s/^        moietyi_index_note_around/        if (0) &/'
mutant "what a stream frees is not noted" $map \
    's/^        moietyi_index_note_around\(&own/        if (0) &/'
mutant "what is given is not noted" $give \
    's/^    moietyi_index_note_around/    if (0) &/'
mutant "the rest of a page that is opened is not noted" $take \
    '/^static uint32_t open_page/,/^}/s/^    buddy_note_sides/    if (0) &/'
mutant "the sides of a claim are not noted" $claim \
    's/^    if \(!claim\.is_failed\)$/    if (0)/'
mutant "what is left before what was claimed is not noted" $claim \
    's/piece->is_done && piece->start == start/0/'
mutant "what is left behind what was claimed is not noted" $claim \
    's/piece->is_done && piece->start \+ piece->grains == end/0/'
mutant "what is left of a run that was joined is not noted" $claim \
    's/^    if \(own\.maps\)/    if (0)/'
mutant "what a claim gives back is not noted" $claim \
    '/^static void undo_piece/,/^}/s/^    moietyi_index_note_around/    if (0) &/'
part=buddy plays=(races)

# Memory orders. This machine may keep them anyway; a sanitizer can tell.
with_flags "${tsan[@]}"
mutant "a take does not acquire" $base \
    's/memory_order_acquire, memory_order_relaxed/memory_order_relaxed, memory_order_relaxed/'
mutant "a give does not acquire" $base \
    's/memory_order_seq_cst, memory_order_relaxed/memory_order_release, memory_order_relaxed/'
mutant "a give does not release" $base \
    's/memory_order_seq_cst, memory_order_relaxed/memory_order_acquire, memory_order_relaxed/'
mutant "an opened word is not released" $base \
    's/value, memory_order_seq_cst\)/value, memory_order_relaxed)/'
part=maps plays=(maps)
mutant "a claim does not acquire" $map_state \
    's/~mask, memory_order_acquire/~mask, memory_order_relaxed/'
mutant "a move does not pass on what givers released" $map \
    '/^static uint64_t take_word/,/^}/s/moietyi_load_seq_cst/moietyi_load_relaxed/
     s/atomic_exchange_explicit\(word, 0, memory_order_seq_cst\)/atomic_exchange_explicit(word, 0, memory_order_relaxed)/'
mutant "new words of a map are not released" $map \
    's/memory_order_release,/memory_order_relaxed,/'

printf '%d failed\n' "$failures"
((failures == 0))
