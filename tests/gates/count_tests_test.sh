#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The counting in .ci/run, on event files written here: what is missing, what
# is unknown and what is empty must not look like a pass.
set -uo pipefail
. tests/gates/expect.sh

events=$TEST_TMPDIR/events
targets=$TEST_TMPDIR/targets

# Words of the form label or label:tag.
there_are() {
    local word
    {
        echo '<?xml version="1.1"?><query version="2">'
        for word in "$@"; do
            echo "<rule class=\"cc_test\" name=\"//t:${word%%:*}\">"
            echo '<list name="tags">'
            [[ $word != *:* ]] || echo "<string value=\"${word#*:}\"/>"
            echo '</list></rule>'
        done
        echo '</query>'
    } >"$targets"
}

# Words of the form label=STATUS.
bazel_said() {
    local word
    echo '{"id":{"started":{}},"started":{"command":"test"}}' >"$events"
    for word in "$@"; do
        printf '{"id":{"testSummary":{"label":"%s"}},"testSummary":%s}\n' \
            "//t:${word%%=*}" "{\"overallStatus\":\"${word#*=}\"}" \
            >>"$events"
    done
}

counts() {
    /usr/bin/python3 .ci/count_tests.py "$events" "$targets" "$@" \
        2>"$TEST_TMPDIR/words"
}

there_are a b c:gpu
bazel_said a=PASSED b=PASSED
expect_text "passed and left out" "2 0 1" "$(counts gpu)"
expect_text "left out without the leg's leave" "2 1 0" "$(counts stress)"
expect_ok "is named" grep -q '//t:c: was not run' "$TEST_TMPDIR/words"

for status in FAILED TIMEOUT FLAKY NO_STATUS INCOMPLETE REMOTE_FAILURE; do
    bazel_said a=PASSED "b=$status"
    expect_text "$status is a failure" "1 1 1" "$(counts gpu)"
done
bazel_said a=PASSED
log="$TEST_TMPDIR/b's test.log"
printf 'early %4000s late' '' >"$log"
printf '{"id":{"testSummary":{"label":"//t:b"}},"testSummary":%s}\n' \
    "{\"overallStatus\":\"FAILED\",\"failed\":[{\"uri\":\"file://${log// /%20}\"}]}" \
    >>"$events"
expect_text "a failure with a log" "1 1 1" "$(counts gpu)"
expect_ok "whose end is shown" grep -q 'late$' "$TEST_TMPDIR/words"
expect_refusal "and not all" "" grep -q early "$TEST_TMPDIR/words"
rm "$log"
expect_text "a failure whose log is gone" "1 1 1" "$(counts gpu)"
expect_ok "says so" grep -q 'No such file' "$TEST_TMPDIR/words"

bazel_said a=PASSED
expect_text "so is a test that Bazel did not mention" "1 1 1" "$(counts gpu)"
bazel_said a=PASSED b=PASSED c=FAILED
expect_text "and one that was to be left out" "2 1 0" "$(counts gpu)"

sed -i 's,//t:a,@@//t:a,' "$events"
expect_text "a current Bazel's labels" "2 1 0" "$(counts gpu)"

there_are c:gpu
bazel_said
expect_text "a leg that ran nothing" "0 1 1" "$(counts gpu)"
there_are
expect_text "a repository without tests" "0 1 0" "$(counts gpu)"
there_are a
: >"$events"
expect_text "an empty event file" "0 1 0" "$(counts gpu)"
echo 'half a li' >"$events"
expect_text "a broken event file" "0 1 0" "$(counts gpu)"
rm "$events"
expect_text "no event file" "0 1 0" "$(counts gpu)"
finish
