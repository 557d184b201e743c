# SPDX-License-Identifier: Apache-2.0
#
# For the tests of this folder: source it. Without Spin nothing can be checked,
# which is a failure in CI and elsewhere must be seen.
if ! command -v spin >/dev/null; then
    if [ -n "${CI:-}${MOIETY_REQUIRE_SPIN:-}" ]; then
        echo "FAILED: spin is not installed" >&2
        exit 1
    fi
    echo "SKIPPED, NOTHING WAS CHECKED: spin is not installed" >&2
    exit 0
fi
