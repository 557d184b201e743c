# SPDX-License-Identifier: Apache-2.0
#
# For tests written in shell: source it, state expectations, call finish.
# Every expectation runs, whether or not an earlier one held.

expect_count=0
expect_failures=0
expect_output=

# $1: what is expected; the rest: a command that must succeed.
expect_ok() {
    local what=$1
    shift
    expect_count=$((expect_count + 1))
    if expect_output=$("$@" 2>&1); then
        printf 'ok      %s\n' "$what"
    else
        printf 'FAILED  %s\n        command: %s\n%s\n' \
            "$what" "$*" "$expect_output"
        expect_failures=$((expect_failures + 1))
    fi
}

# $1: what is expected; $2: words that the output must hold; the rest: a
# command that must fail. A command that fails for another reason fails here.
expect_refusal() {
    local what=$1 words=$2
    shift 2
    expect_count=$((expect_count + 1))
    if expect_output=$("$@" 2>&1); then
        printf 'FAILED  %s: it was accepted\n        command: %s\n%s\n' \
            "$what" "$*" "$expect_output"
        expect_failures=$((expect_failures + 1))
    elif [[ $expect_output != *"$words"* ]]; then
        printf 'FAILED  %s: the refusal does not say "%s"\n%s\n' \
            "$what" "$words" "$expect_output"
        expect_failures=$((expect_failures + 1))
    else
        printf 'ok      %s\n' "$what"
    fi
}

# $1: the exit status; $2: words that the output must hold; the rest: a command.
expect_exit() {
    local code=$1 words=$2 actual
    shift 2
    expect_count=$((expect_count + 1))
    expect_output=$("$@" 2>&1)
    actual=$?
    if [ "$actual" -ne "$code" ] || [[ $expect_output != *"$words"* ]]; then
        printf 'FAILED  %s: exit status %d (wanted %d), and not "%s" in:\n%s\n' \
            "$*" "$actual" "$code" "$words" "$expect_output"
        expect_failures=$((expect_failures + 1))
    fi
}

# $1: what is expected; $2: the text wanted; $3: the text there is.
expect_text() {
    expect_count=$((expect_count + 1))
    if [ "$2" = "$3" ]; then
        printf 'ok      %s\n' "$1"
    else
        printf 'FAILED  %s\n        wanted: %s\n        got:    %s\n' "$@"
        expect_failures=$((expect_failures + 1))
    fi
}

# A test that stated nothing proves nothing, so it fails.
finish() {
    printf '%d expectations, %d failed\n' "$expect_count" "$expect_failures"
    [ "$expect_count" -gt 0 ] && [ "$expect_failures" = 0 ]
    exit
}
