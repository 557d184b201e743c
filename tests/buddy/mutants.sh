#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Changes the buddy for the worse, one place at a time, in a copy of its
# sources, and expects the model or a race to notice. A mutant that survives
# fails this test; so does a change that no longer applies to the sources.
set -uo pipefail

cc=${CC:-cc}
work=${TEST_TMPDIR:?}
flags=(-std=c11 -O1 -pthread -I. -Ipool/include)
tsan=(-g -fsanitize=thread)
product=(pool/buddy/{buddy,check,give,home,runs,summary,take,trim}.c
    tests/support/buddy_probe.c)
drivers=(tests/buddy/{byte_map,model,mutant_driver,race,race_arena}.c
    tests/oracle/mutex_buddy.c)
more=()
failures=0
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
    cp -L tests/support/buddy_probe.[ch] "$1/tests/support/"
    chmod -R u+w "$1"
    sed -i -e 's|^{$|{ perturb();|' \
        -e 's|^typedef _Atomic|void perturb(void);\n&|' \
        "$1/pool/base/atomics.h"
}

# $1: folder with sources; $2...: those to compile. Makes its driver.
build() {
    (cd "$1" && "$cc" "${flags[@]}" "${more[@]}" -c "${@:2}") &&
        "$cc" "${flags[@]}" "${more[@]}" "$work"/drivers/*.o "$1"/*.o \
            -o "$1/driver"
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
        "$work/control/driver" 1 >>"$work/log" 2>&1; then
        printf 'passes  no change %s\n' "$*"
    else
        fail "the unchanged sources fail"
        cat "$work/log"
    fi
}

# $1: what the mutant does; $2: the file; $3: a sed script that makes it so. Of
# the other files it has the objects that nothing was changed in.
mutant() {
    local folder=$work/mutant changed=("$2") result
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
    timeout 100 "$folder/driver" 8 >"$work/log" 2>&1
    result=$?
    case $result in
    1 | 66) # the driver's own verdict, or the sanitizer's
        printf 'killed  %s: %s\n' "$1" \
            "$(grep -m1 -E 'round|step|WARNING' "$work/log")"
        ;;
    0) fail "$1: survived" ;;
    *) fail "$1: ended with $result" ;;
    esac
}

give=pool/buddy/give.c
home=pool/buddy/home.c
take=pool/buddy/take.c
runs=pool/buddy/runs.c
summary=pool/buddy/summary.c
trim=pool/buddy/trim.c
word=pool/buddy/word.h
base=pool/base/atomics.h

with_flags

# Giving.
mutant "a full word is never retired" $give \
    's/== BINADEI_WORD_FULL && retires/== 0/'
mutant "the bit above is set, the word stays full" $give \
    's/filling\.after = .*/filling.after = filled;/'
mutant "a word is retired by a second store" $give \
    's/filling\.after = .*/filling.after = filled;/
     s/^    filling\.is_given = true;/    if (filling.is_retired) binadei_store_release(word, 0);\n&/'
mutant "a word is retired without setting the bit above" $give \
    's/return binadei_give_pages\(.*,$/return true; (void)(/
     s/^( +)\*retired \|=.*/\1(void)retired;/'
mutant "a chunk that a part fills is not given with the whole ones" $give \
    's/whole \| retired/whole/'
mutant "what is free may be given again" $give \
    's/if \(filling\.before & mask\)/if (0)/'
mutant "a give is a load and a store" $give \
    's/while \(!binadei_cas_seq_cst\(word, &filling\.before, (.*)\)\);/while (binadei_store_release(word, \1), 0);/'
mutant "the tail of an interval is not given" $give \
    's/while \(at < end && is_given\)/while (at + 63 < end \&\& is_given)/'

# Taking.
mutant "too little is taken out of a word" $take \
    's/seen & ~picked\)/seen \& ~start_bit_of(picked))/
     s/^static uint32_t take_from_chunk/static uint64_t start_bit_of(uint64_t b) { return b \& (0 - b); }\n&/'
mutant "a take is a load and a store" $take \
    's/while \(!binadei_cas_acquire\(word, &seen, (.*)\)\);/while (binadei_store_release(word, \1), 0);/'
mutant "an opened chunk still offers what was taken" $take \
    's/(chunk_words\[chunk.index\], )~picked/\1BINADEI_WORD_FULL/'
mutant "an opened page still offers what was taken" $take \
    's/(pages\[page.index\].word, )rest/\1BINADEI_WORD_FULL/'
mutant "what a carved chunk has left is forgotten" $take \
    's/if \(room\)/if (0)/'
mutant "alignment within a chunk is ignored" $take \
    's/binadei_word_aligned\(what->alignment\)/BINADEI_WORD_FULL/'
mutant "alignment of chunks is ignored" $take \
    's/binadei_word_aligned\(chunk_alignment.*\)/BINADEI_WORD_FULL/'
mutant "the word that is left stays open" $home \
    's/if \(left_plus_one\)/if (0)/'
mutant "runs of a batch may overlap" $word \
    's/start \+ length < 64U \?/start < 63U ?/; s/<< \(start \+ length\)/<< (start + 1)/'
mutant "a run is found one unit too short" $word \
    's/word >> \(length - covered\)/word >> (length - covered - 1)/'

# Runs of pages.
mutant "a run claimed in part is not undone" $runs \
    's/^        give_words\(.*i\);//'
mutant "a run takes pages that are busy" $runs \
    's/if \(\(seen & mask\) != mask\)/if (0)/'
mutant "the rest of the last page is forgotten" $runs \
    's/if \(rest\)/if (0)/'
mutant "the first gap that fits is taken, not the best" $runs \
    's/run\.length < best\.length/0/'

# Summaries.
mutant "a run of grains is not raised" $summary \
    '/^void binadei_summary_raise_chunk/,/^}/s/ raise_chunk\(.*/ ;/'
mutant "a run of chunks is not raised" $summary \
    '/^void binadei_summary_raise_page/,/^}/s/ raise_page\(.*/ ;/'
mutant "a raise stops below the page" $summary \
    '/^static void raise_chunk/,/^}/s/raise_grain_page\(.*/;/'
mutant "grains are lowered without another look" $summary \
    '/^void binadei_summary_lower_chunks/,/^}/s/ raise_chunk\(.*/ ;/'
mutant "a bit that is clear is taken for set" $summary \
    's/if \(!\(binadei_load_seq_cst\(summary\) & bit\)\)/if (0)/'
mutant "chunks are lowered without another look" $summary \
    '/^void binadei_summary_lower_page/,/^}/s/^        raise_page\(.*/;/'
mutant "a page is lowered without another look" $summary \
    '/^void binadei_summary_lower_grain_page/,/^}/s/^        raise_grain_page\(.*/;/'

# Trim.
mutant "a closed chunk is given to nobody" $trim \
    '/^void binadei_close_chunk/,/^}/s/if \((close_word.*)\)$/if (\1 \&\& 0)/'
mutant "a word is closed by a store" $trim \
    's/if \(binadei_cas_acq_rel\(word, &full, 0\)\)/if (binadei_store_release(word, 0), true)/'

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

printf '%d failed\n' "$failures"
((failures == 0))
