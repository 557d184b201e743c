#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The demo as a user meets it: what it prints and how it exits. It takes the
# stand-in unless told otherwise, so no GPU is needed here.
set -u

demo=bench/demo
failures=0
unset BINADE_DRIVER BINADE_REQUIRE_GPU BINADE_STANDIN_COST

# expect CODE TEXT COMMAND...: the exit status, and a text that is printed.
expect()
{
    code=$1 text=$2
    shift 2
    output=$("$@" 2>&1)
    actual=$?
    if [ "$actual" -ne "$code" ]; then
        echo "FAILED: $* exited with $actual, not $code:"
        echo "$output"
        failures=$((failures + 1))
    fi
    case $output in
    *"$text"*) ;;
    *)
        echo "FAILED: $* did not print \"$text\":"
        echo "$output"
        failures=$((failures + 1))
        ;;
    esac
}

expect 0 "*** STAND-IN DRIVER: no GPU is used" "$demo"
expect 0 "all as they should be" "$demo"
expect 0 "yes  context events" "$demo"
expect 0 "costs are simulated (BINADE_STANDIN_COST=h200)" \
    env BINADE_STANDIN_COST=h200 "$demo"
# The demo asks for the stand-in itself: what the environment says is not it.
expect 0 "STAND-IN" env BINADE_DRIVER=auto "$demo" --driver=standin
expect 0 "usage: demo" "$demo" --help

expect 2 "demo: --speed is not accepted" "$demo" --speed
expect 2 "demo: --driver= is not accepted" "$demo" --driver=
expect 2 "demo: --device=one is not accepted" "$demo" --device=one

expect 3 "accepted values are auto, cuda, standin" "$demo" --driver=quick
expect 3 "BINADE_DRIVER=/no/such.so" "$demo" --driver=/no/such.so
expect 3 "device 5: accepted values are 0 to 0" "$demo" --device=5
expect 3 "BINADE_REQUIRE_GPU=1" env BINADE_REQUIRE_GPU=1 "$demo"

# An entry that fails, and one that only says that it did its work.
expect 1 "cuMemcpyDtoHAsync: CUDA_ERROR_ILLEGAL_ADDRESS (700)" \
    env BINADE_STANDIN_FAULTS=cuMemcpyDtoHAsync:nth=1:code=700 "$demo"
expect 1 "2097152 bytes are WRONG" \
    env FAKE_BEHIND=pool/standin/libcuda.so.1 \
    "$demo" --driver=tests/driver/libforgetful.so

[ "$failures" -eq 0 ] && echo "the demo behaves"
exit "$failures"
