#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Shows that check_sources.sh, check_format.sh, check_readmes.py,
# check_adrs.py, check_atomics.py, check_imports.py, check_names.py,
# check_clocks.py, check_installs.py, check_language.py and check_tidy_globs.sh
# find what they are there to find: each rule is broken once, in a tree of its
# own.
set -uo pipefail
. tests/gates/expect.sh

gates=$PWD/tests/gates
repository_clang_format=$(readlink -f .clang-format)
repository_clang_tidy=$(readlink -f .clang-tidy)
export HOME=$TEST_TMPDIR/home
mkdir -p "$HOME"

spdx='SPDX-License-Identifier: Apache-2.0'
tree=
tree_count=0

# Makes a small tree that keeps every rule, and sets `tree` to it.
clean_tree() {
    tree_count=$((tree_count + 1))
    tree=$TEST_TMPDIR/tree$tree_count
    mkdir -p "$tree/pool" "$tree/tests"
    cp "$repository_clang_format" "$tree/.clang-format"
    printf '# %s\npackage(default_visibility = ["%s"])\n' \
        "$spdx" //visibility:private >"$tree/pool/BUILD"
    cat >"$tree/pool/good.h" <<EOF
/* $spdx */
#ifndef MOIETY_POOL_GOOD_H_
#define MOIETY_POOL_GOOD_H_

_Static_assert(sizeof(int) == 4, "no assertion at run time");

#if MOIETY_TRACE
#endif

#endif
EOF
    cp "$tree/pool/good.h" "$tree/tests/good.h"
}

# $1: what; $2: words of the refusal; $3: file to add to; $4: text to add.
expect_found() {
    clean_tree
    printf '%b\n' "$4" >>"$tree/$3"
    expect_refusal "sources: $1" "$2" "$gates/check_sources.sh" "$tree"
    expect_ok "sources: names the file" \
        grep -q "$3" <<<"$expect_output"
}

clean_tree
expect_ok "sources: a clean tree passes" "$gates/check_sources.sh" "$tree"
expect_found "a file without a licence" "no SPDX line" \
    pool/bare.c 'int x;'
expect_found "a pipe into grep -q" "a pipe into grep -q" \
    tests/pipe.sh '# SPDX-License-Identifier: Apache-2.0\nls \0174 grep -q x'
expect_found "the same on the next line" "a pipe into grep -q" \
    tests/pipe.sh '# SPDX-License-Identifier: Apache-2.0\nls |\n    grep -q x'
expect_found "#ifdef of a feature macro" "tested with #ifdef" \
    pool/good.h '#ifdef MOIETY_TRACE\n#endif'
expect_found "defined() of a feature macro" "tested with defined()" \
    tests/good.h '#if defined(MOIETY_TRACE)\n#endif'
expect_found "assert in product code" "assert in product code" \
    pool/good.h 'assert(size_bytes > 0);'
expect_found "assert.h in product code" "assert in product code" \
    pool/good.h '#include <assert.h>'
expect_found "a glob" "a glob that is not of public headers" \
    pool/BUILD 'x = glob(["*.c"])'
expect_found "a target's own -O0" "an optimisation of its own" \
    pool/BUILD 'copts = ["-O0"]'
expect_found "a lock that is not watched" "that no build watches" \
    pool/good.h \
    'static pthread_mutex_t all = X;\nint a = pthread_mutex_lock(&all);'
expect_found "a try of one" "that no build watches" pool/good.h \
    'static pthread_mutex_t all = X;\nint a = pthread_mutex_trylock(&all);'
expect_found "a wait with one" "that no build watches" pool/good.h \
    'pthread_mutex_t all = X;\nint a = pthread_cond_wait(&until, &all);'
clean_tree
printf '%s\n' 'static pthread_mutex_t all = X;' 'moietyi_lock(&all);' \
    'pthread_mutex_lock(&pool->all);' >>"$tree/pool/good.h"
expect_ok "sources: a lock that is watched, and one of an object, pass" \
    "$gates/check_sources.sh" "$tree"
expect_found "a public package" "not private by default" \
    tests/BUILD "# $spdx"
expect_found "a nameless to-do" "that names no issue" \
    pool/good.h "/* TO""DO: later */"
clean_tree
printf 'see %s/notes\n' "$tree" >"$tree/pool/notes.md"
expect_refusal "sources: a path of the checkout" "a path of this machine" \
    "$gates/check_sources.sh" "$tree"
clean_tree
printf 'see %s/notes\n' "$HOME" >"$tree/pool/notes.md"
expect_refusal "sources: a path of the home" "a path of this machine" \
    "$gates/check_sources.sh" "$tree"
printf 'see /other%s/notes\n' "$HOME" >"$tree/pool/notes.md"
expect_ok "sources: but not the end of a longer path" \
    "$gates/check_sources.sh" "$tree"

clean_tree
printf 'see %s/notes\n' "$HOME" >"$tree/ignored.md"
echo ignored.md >"$tree/.gitignore"
git -C "$tree" init -q
expect_ok "sources: what git ignores is not looked at" \
    "$gates/check_sources.sh" "$tree"
echo >"$tree/.gitignore"
expect_refusal "sources: what git does not ignore is" \
    "a path of this machine" "$gates/check_sources.sh" "$tree"

expect_ok "format: a clean tree passes" "$gates/check_format.sh" "$tree"
printf '/* %s */\nint  badly( int a ){return a ;}\n' "$spdx" \
    >"$tree/pool/badly.c"
expect_refusal "format: a badly formatted file" "badly.c" \
    "$gates/check_format.sh" "$tree"
mkdir "$TEST_TMPDIR/empty"
expect_refusal "format: an empty tree" "no C or C++ file" \
    "$gates/check_format.sh" "$TEST_TMPDIR/empty"

# Makes a tree whose READMEs lead to all of it.
# shellcheck disable=SC2016
readme_tree() {
    clean_tree
    mkdir "$tree/pool/part"
    touch "$tree"/pool/{one.h,one.c,few_a.c,part/two.c} "$tree/tests/far.c"
    printf '%s\n' 'A tree.' '- `pool` is the library' \
        '- [tests](tests) has its tests' >"$tree/README.md"
    printf '%s\n' '| `one.h`, `.c`, `few_*.c` | what there is |' \
        '| [part](part/) | a part of it, see `far.c` |' '```' '`none.c`' '```' \
        'Make a `NAME.c` without `cuda.h`, as [the first](../README.md#top).' \
        >"$tree/pool/README.md"
}

# $1: what; $2: words of the refusal; $3: what to do in the tree.
expect_lost() {
    readme_tree
    (cd "$tree" && eval "$3")
    expect_refusal "readmes: $1" "$2" "$gates/check_readmes.py" "$tree"
}

# $1: what; $2: what to do in the tree.
expect_found_by() {
    readme_tree
    (cd "$tree" && eval "$2")
    expect_ok "readmes: $1" "$gates/check_readmes.py" "$tree"
}

expect_found_by "a clean tree passes" :
expect_lost "a file that is gone" "pool/README.md:1: there is no one.h" \
    'rm pool/one.h'
expect_lost "an ending that is gone" "there is no one.c" 'rm pool/one.c'
expect_lost "a pattern of none" "there is no few_*.c" 'rm pool/few_a.c'
expect_lost "a file that prose names" "pool/README.md:2: there is no far.c" \
    'rm tests/far.c'
expect_lost "another folder's file in the first column" "there is no far.c" \
    'echo "| \`far.c\` | what |" >>pool/README.md'
expect_lost "a path that is gone" "there is no tests/gone.c" \
    'echo "See \`tests/gone.c\`." >>pool/README.md'
expect_found_by "a path of another folder passes" \
    'echo "| \`tests/far.c\` | what |" >>pool/README.md'
expect_lost "a link to nothing" "leads to gone.md, which is not there" \
    'echo "[A page](gone.md#top)." >>README.md'
expect_lost "a folder that no line names" "./README.md: does not say what tests is" \
    'sed -i /tests/d README.md'
expect_lost "a folder of which nothing is said" "does not say what pool is" \
    'sed -i "s/ is the library//" README.md'
expect_lost "a folder that only a README above the nearest names" \
    "pool/README.md: does not say what pool/part is" \
    'sed -i /part/d pool/README.md; echo "\`pool/part\` is a part." >>README.md'
expect_found_by "the nearest may be far above" \
    'rm pool/README.md; echo "\`pool/part\` is a part." >>README.md'
expect_lost "no README at all" "does not say what pool/part is" \
    'rm README.md pool/README.md'
expect_found_by "CONTRIBUTING.md may name the root's folders" \
    'mv README.md CONTRIBUTING.md; echo >README.md'
expect_lost "more than a screen" "pool/README.md: 66 lines are more than a screen" \
    'printf "%60s" | tr " " "\n" >>pool/README.md'

# Makes a tree with a record in force and one that it replaced.
record_tree() {
    clean_tree
    records=$tree/docs/dev/adr
    mkdir -p "$records/superseded"
    printf '%s\n' '# 2. One lock' '' '- Date: 2026-11-20, rewritten 2026-11-21' \
        '- Status: in force' '' '## Context' 'Two locks meet.' '' \
        '## Decision' 'One lock.' >"$records/0002-one-lock.md"
    printf '%s\n' '# 1. Two locks' '' '- Date: 2026-11-19' \
        '- Status: superseded by [0002](../0002-one-lock.md)' '' \
        'Reason: they met.' >"$records/superseded/0001-two-locks.md"
    printf '%s\n' '[2](0002-one-lock.md)' \
        '[1](superseded/0001-two-locks.md)' >"$records/README.md"
}

# $1: what; $2: words of the refusal; $3: a record; $4: a sed script for it.
expect_no_record() {
    record_tree
    sed -i "$4" "$records/$3"
    expect_refusal "adrs: $1" "$2" "$gates/check_adrs.py" "$tree"
}

record_tree
expect_ok "adrs: a tree of two records passes" "$gates/check_adrs.py" "$tree"
one=0002-one-lock.md
two=superseded/0001-two-locks.md
expect_no_record "one without a date" "$one: has no '- Date" $one '/Date/d'
expect_no_record "a date that is none" "has no '- Date" $one 's/-20,/-77,/'
expect_no_record "one without a status" "$one: has no '- Status: in force" \
    $one '/Status/d'
expect_no_record "a superseded one among those in force" \
    "has no '- Status: in force" $one 's/in force/superseded by [1](1.md)/'
expect_no_record "one of 46 lines" "46 lines are more than 45" $one \
    "\$a $(printf 'x\\n%.0s' {1..35})x"
record_tree
printf 'x\n%.0s' {1..35} >>"$records/$one"
expect_ok "adrs: one of 45 lines passes" "$gates/check_adrs.py" "$tree"
expect_no_record "one without a decision" "no section Decision" $one '/Dec/d'
expect_no_record "another's title" "has no title '# 2." $one 's/# 2/# 3/'
expect_no_record "one that nothing supersedes" \
    "$two: has no '- Status: superseded by" $two 's/superseded.*/gone/'
expect_no_record "one that a missing one supersedes" "no record 0003" $two \
    's/\[0002/[0003/'
expect_no_record "a file that is gone" "$one:6: there is no pool/gone.c" $one \
    's:## Context:See `pool/gone.c`.:'
expect_no_record "one without a reason" "has no 'Reason" $two '/Reason/d'
expect_no_record "a superseded one without a date" "$two: has no '- Date" \
    $two '/Date/d'
expect_no_record "one that the index forgets" "does not link to docs/dev/adr/$two" \
    README.md '2d'
record_tree
sed 's/# 1/# 2/' "$records/$two" >"$records/superseded/0002-one-more.md"
expect_refusal "adrs: two of one number" "has the number of" \
    "$gates/check_adrs.py" "$tree"
expect_refusal "adrs: no record at all" "no record" \
    "$gates/check_adrs.py" "$TEST_TMPDIR/empty"

# Makes a tree of one edge, with an object and an operation of each sort.
atomic_tree() {
    clean_tree
    mkdir -p "$tree/docs/dev"
    # shellcheck disable=SC2016
    printf '| %s | %s | %s | %s | %s |\n' edge release acquire carries test \
        AB '`pool/flag.c` `raise`' '`look`' 'what is ready' '`a:test`' \
        >"$tree/docs/dev/memory-model.md"
    cat >"$tree/pool/flag.c" <<'EOF'
/* Edge AB: raise (release) -> look (acquire). */
static atomic_int flag;

struct side {
    /* Edge: none; relaxed: a
     * sum. */
    _Atomic uint64_t sum;
    uint64_t plain;
};

static void raise(void)
{
    /* AB.release: what is ready. */
    atomic_store_explicit(&flag, 1, memory_order_release);
}

/* AB.acquire. */
static int look(void)
{
    return atomic_load_explicit(&flag, memory_order_acquire);
}

static void add(struct side *side)
{
    atomic_fetch_add_explicit(&side->sum, 1, memory_order_relaxed);
    side->plain++;
}

static void forget(void)
{
    int one = 1;
    do {
        one = 1;
        /* AB.release, as in raise(). */
    } while (!atomic_compare_exchange_weak_explicit(
        &flag, &one, 0, memory_order_release, memory_order_relaxed));
    atomic_store_explicit(&flag, 0, memory_order_relaxed); /* relaxed: ours. */
}
EOF
}

# $1: what; $2: words of the refusal; $3: a sed script for the source; $4: one
# for the rows.
expect_unordered() {
    atomic_tree
    sed -i "$3" "$tree/pool/flag.c"
    sed -i "${4:-}" "$tree/docs/dev/memory-model.md"
    expect_refusal "atomics: $1" "$2" "$gates/check_atomics.py" "$tree"
}

atomic_tree
expect_ok "atomics: a tree that says it all passes" \
    "$gates/check_atomics.py" "$tree"
expect_text "atomics: and its operations are counted" \
    "atomics: 5 operations, 3 name an edge, 2 are relaxed with a reason; \
2 objects, 1 edges" "$expect_output"
expect_unordered "an object without an edge" \
    'flag.c:1: the declaration of flag has no "Edge XY"' 1d
expect_unordered "an object that is relaxed for no reason" \
    "the declaration of sum has no" 's/Edge: none; relaxed/Relaxed/'
expect_unordered "an operation without a comment" \
    "flag.c:13: atomic_store_explicit: names no edge" '/AB.release: /d'
expect_unordered "a relaxed one without a reason" \
    "names no edge and no reason" 's:/. relaxed. ours. ./::'
expect_unordered "a relaxed one whose object has an edge" \
    "names no edge and no reason" 's/&side->sum/\&flag/'
expect_unordered "an edge that is not the object's" \
    "names AB, but sum declares CD" \
    's/Edge: none; relaxed:/Edge CD:/;s:^    atomic_fetch_add:/* AB */&:' \
    '2{p;s/AB/CD/}'
expect_unordered "an order that is not written out" \
    "the order is not written out" \
    's/load_explicit(&flag, memory_order_acquire)/load(\&flag)/'
expect_unordered "an object that is assigned to" \
    "sum is read or written without an order" 's/side->plain++/side->sum++/'
expect_unordered "an object that is read" \
    "flag is read or written without an order" \
    's/return atomic_load.*/return flag;/'
expect_unordered "an operation in a macro" "names no edge" \
    '$a #define DOWN() atomic_store_explicit(\&flag, 0, memory_order_release)'
expect_unordered "an edge without a row" \
    "flag.c:1: the edge CD has no row" 's/Edge AB/Edges AB and CD/'
expect_unordered "a row of a file that is not there" \
    "pool/mark.c is no file" '' 's/flag.c/mark.c/'
expect_unordered "a row of a function that is not there" \
    "AB: look is in no file" 's/int look/int peek/'
atomic_tree
mkdir "$tree/numa"
mv "$tree/pool/flag.c" "$tree/numa"
expect_refusal "atomics: a row of one that was moved" \
    "AB: raise is in numa/flag.c" "$gates/check_atomics.py" "$tree"
expect_unordered "a row of a function that does nothing" \
    "look has no atomic operation" 's/return atomic_load.*/return 0;/'
expect_unordered "a row of a function with another edge" \
    "AB: no operation of look names the edge" \
    's/AB.acquire/CD.acquire/;s/Edge AB/Edges AB and CD/' \
    '2{p;s/AB/CD/;s/raise/look/}'
atomic_tree
cat >"$tree/pool/sum.c" <<'EOF'
/* Every operation of this
 * file is relaxed: sums. */
static unsigned sum(atomic_uint *one)
{
    return atomic_load_explicit(one, memory_order_relaxed);
}
EOF
expect_ok "atomics: a file may say it once for all" \
    "$gates/check_atomics.py" "$tree"
sed -i s/order_relaxed/order_acquire/ "$tree/pool/sum.c"
expect_refusal "atomics: but not of an acquire" "names no edge" \
    "$gates/check_atomics.py" "$tree"

# $1: what; $2: words of the refusal; then pairs of a file of a package and what
# it says. Its parts are a and b.
expect_circle() {
    local what=$1 refusal=$2 package=$TEST_TMPDIR/package
    shift 2
    rm -rf "$package"
    mkdir -p "$package/a" "$package/b"
    touch "$package"/{,a/,b/}__init__.py "$package"/{a,b}/{one,two}.py
    echo 'from package.b import one, two' >"$package/a/one.py"
    echo 'from package.b.one import x' >"$package/b/two.py"
    expect_ok "imports: a package without a circle passes" \
        "$gates/check_imports.py" "$package"
    while [ $# -gt 0 ]; do
        printf '%b\n' "$2" >>"$package/$1"
        shift 2
    done
    expect_refusal "imports: $what" "$refusal" \
        "$gates/check_imports.py" "$package"
}

expect_circle "two modules" "package.b.one -> package.b.two -> package.b.one" \
    b/one.py 'import package.b.two'
expect_circle "inside a function" "package.b.two -> package.b.one" \
    b/one.py 'def late():\n    from package.b import two'
expect_circle "two parts without one of modules" \
    "package.a -> package.b -> package.a" b/two.py 'import package.a.two'
expect_circle "three modules" "package.b.one -> package.c -> package.b.two" \
    b/one.py 'from package import c' c.py 'from package.b.two import x'
expect_circle "a relative import" "relative import" b/two.py 'from . import one'
expect_refusal "imports: an empty package" "no Python" \
    "$gates/check_imports.py" "$TEST_TMPDIR/empty"

clean_tree
echo 'static int look(void)' >"$tree/pool/a.c"
echo 'static int *a_look(void)' >"$tree/pool/b.c"
expect_ok "names: files with names of their own pass" \
    "$gates/check_names.py" "$tree"
echo 'static bool look(int what)' >"$tree/pool/b.c"
expect_refusal "names: a static function of two files" \
    "pool/a.c and pool/b.c have a static look()" "$gates/check_names.py" "$tree"
clean_tree
mkdir -p "$tree/pool/include"
echo 'void old_climb(void); /* climb, and "climb" */' >"$tree/pool/include/a.h"
echo 'old_climb(); /* climb */' >"$tree/pool/a.c"
expect_ok "names: an old word of the public names passes" \
    "$gates/check_names.py" "$tree"
echo 'int new_climb;' >"$tree/pool/a.c"
expect_refusal "names: an old word" \
    "pool/a.c: new_climb has a word that the glossary replaced" \
    "$gates/check_names.py" "$tree"
rm -r "$tree/pool/include"
# $1: what; $2: words of the refusal; $3: file; $4: text of a test.
expect_clock() {
    clean_tree
    printf '%b\n' "$4" >"$tree/tests/$3"
    expect_refusal "clocks: $1" "tests/$3:$2" "$gates/check_clocks.py" "$tree"
}

bound="an assertion bounds a duration from above"
sleeps="a sleep without a comment that says why"
expect_clock "a bound in C++" "1: $bound" a_test.cc \
    'EXPECT_LT(Clock::now() - begin,\n    std::chrono::seconds(3));'
expect_clock "a bound in C++, as a condition" "1: $bound" a_test.cc \
    'ASSERT_TRUE(kit_now_ns() - begin_ns < 1000);'
expect_clock "a bound in Python" "1: $bound" a_test.py \
    'assert time.monotonic() - began < 30'
expect_clock "a sleep in C++" "2: $sleeps" a_test.cc \
    'Begin();\nstd::this_thread::sleep_for(kLong);\nEXPECT_TRUE(is_over);'
expect_clock "a sleep in C" "1: $sleeps" a_test.c 'usleep(20000);'
expect_clock "a sleep in Python" "1: $sleeps" a_test.py 'time.sleep(0.1)'
expect_clock "a sleep in shell" "1: $sleeps" a_test.sh 'sleep 1'
expect_clock "a loop until a time" "1: a loop until a clock says so" a_test.cc \
    'while (!is_over && Clock::now() < end)'
expect_clock "a flaky test" "1: a test that is marked as flaky" BUILD \
    'flaky = True,'
clean_tree
cat >"$tree/tests/a_test.cc" <<'EOF'
EXPECT_GE(Clock::now() - begin, std::chrono::milliseconds(60));
while (!is_over)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
EXPECT_LT(at, end);
Begin();
// What must not happen is given the time to happen.
std::this_thread::sleep_for(kMoment);
EXPECT_FALSE(is_over);
EOF
printf '%s\n' 'await asyncio.sleep(0)' \
    'assert time.monotonic() - began >= limit_s' >"$tree/tests/a_test.py"
expect_ok "clocks: bounds from below, looks, and sleeps that say why" \
    "$gates/check_clocks.py" "$tree"

clean_tree
touch "$tree"/pool/{1..23}.h
expect_ok "names: a folder of 25 files passes" "$gates/check_names.py" "$tree"
touch "$tree/pool/24.h"
expect_refusal "names: a folder of 26" "pool has 26 files, more than 25" \
    "$gates/check_names.py" "$tree"

clean_tree
cat >"$tree/good.md" <<'EOT'
    pip install ./emm
    python -m pip install --quiet dist/*.whl
    pip install "./emm[dask]"
`pip install "cuda-core>=1.0"`, or pip install -e ./emm, or uv pip install numpy.
EOT
expect_ok "installs: paths and dependencies pass" \
    "$gates/check_installs.py" "$tree"
# $1: what; $2: the name that is refused; $3: a file's name; $4: its text.
expect_not_installed() {
    clean_tree
    printf '%b\n' "$4" >"$tree/$3"
    expect_refusal "installs: $1" "$2 is neither a path nor a dependency" \
        "$gates/check_installs.py" "$tree"
    expect_ok "installs: names the file" grep -q "$3:1" <<<"$expect_output"
}
expect_not_installed "ours by name" moiety a.md 'pip install moiety'
expect_not_installed "behind an option" moiety a.md 'pip3 install -U moiety'
expect_not_installed "a message in two strings" moiety a.py \
    '"it needs that: pip "\n    f"install moiety"'
expect_not_installed "by another installer" moiety a.md 'uv pip install moiety'
expect_not_installed "a stranger" left-pad a.md '`pip install "left-pad>=1"`'
clean_tree
echo 'it needs moiety[dask]' >"$tree/a.md"
expect_refusal "installs: an extra of ours" "an extra of ours that no index" \
    "$gates/check_installs.py" "$tree"

# Makes a tree with a page that keeps every rule of language.
plain_tree() {
    clean_tree
    mkdir -p "$tree/docs/dev" "$tree/docs/guides"
    cat >"$tree/docs/page.md" <<'EOT'
<!-- SPDX-License-Identifier: Apache-2.0 -->
# Streams

The pool waits for an event. [A link](other.md) and `whoever` are no breach.
What can a thread do?

- One item of a list is a sentence of its own, and so is the next one of it
- which has twenty words too, so that both of them together would have more
  than the rule says.

| What may I do? | a cell may be as long as it likes, since tables are read by their columns and rows and not as a text of sentences |
|---|---|

```
Whoever looks here finds code.
```
EOT
    # Developers read other words.
    echo 'Whoever serves it again goes over it.' >"$tree/docs/dev/page.md"
}

# $1: what; $2: words of the refusal; $3: a page; $4: text to add.
expect_not_plain() {
    plain_tree
    printf '\n%b\n' "$4" >>"$tree/$3"
    expect_refusal "language: $1" "$2" "$gates/check_language.py" "$tree"
    expect_ok "language: names the page" grep -q "$3:" <<<"$expect_output"
}

plain_tree
expect_ok "language: a plain page passes" "$gates/check_language.py" "$tree"
long='one two three four five six seven eight nine ten eleven twelve'
expect_not_plain "a long sentence" "26 words in a sentence" docs/page.md \
    "$long,\n$long, and more."
expect_not_plain "a long item of a list" "words in a sentence" docs/guides/a.md \
    "- $long\n  $long and more."
expect_not_plain "a headless subject" "a headless subject" README.md \
    'The pool waits. What it waits for is an event.'
expect_not_plain "one in a cell" "a headless subject" docs/page.md \
    '| a | Who frees it waits |'
expect_not_plain "a predicate in front" "a headless subject" docs/page.md \
    '- Refused are blocks of others.'
expect_not_plain "a condition with where" "a headless subject" docs/page.md \
    'Where the driver refuses, the pool waits.'
expect_not_plain "a word of the dialect" "'serves it again': say 'be reused'" \
    docs/page.md 'Then the block serves it again.'
expect_not_plain "one in a heading" "'Whoever': say" docs/page.md \
    '## Whoever frees'
expect_not_plain "a long line" "columns" docs/page.md \
    "$(printf 'word. %.0s' {1..20})"
expect_not_plain "a measured time" "'15 ns' is measured" docs/page.md \
    'A pair takes 15 ns.'
expect_not_plain "a measured ratio" "'2.3 times' is measured" README.md \
    'It is 2.3 times as fast.'
expect_not_plain "a number behind a figure" "'3 times' is measured" docs/page.md \
    '<!-- figure: a -->\nIt takes 15 ns.\n<!-- end -->\nIt is 3 times as fast.'
plain_tree
printf '<!-- figure: a -->\nIt takes 15 ns.\n<!-- end -->\n' >>"$tree/README.md"
expect_ok "language: a figure may have numbers" "$gates/check_language.py" "$tree"

expect_ok "tidy: every glob of ours matches" \
    "$gates/check_tidy_globs.sh" "$repository_clang_tidy"
sed 's/clang-analyzer/clang-analyze/' "$repository_clang_tidy" \
    >"$TEST_TMPDIR/misspelt"
expect_refusal "tidy: a misspelt glob" "'clang-analyze-*' matches no check" \
    "$gates/check_tidy_globs.sh" "$TEST_TMPDIR/misspelt"
sed 's/-readability-magic-numbers/-readability-magic-number/' \
    "$repository_clang_tidy" >"$TEST_TMPDIR/misspelt"
expect_refusal "tidy: a misspelt exception" "magic-number' matches no check" \
    "$gates/check_tidy_globs.sh" "$TEST_TMPDIR/misspelt"
echo 'WarningsAsErrors: "*"' >"$TEST_TMPDIR/none"
expect_refusal "tidy: no checks at all" "no Checks" \
    "$gates/check_tidy_globs.sh" "$TEST_TMPDIR/none"
finish
