#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The demo: what two programs allocated, replayed on Moiety and on others, in
# the cases that a reader chooses an allocator for. Prints tables and writes a
# report.
#
# usage: bazel run //bench:demo -- [--trace=FILE] [OPTION]...
#
# The options are those of `moiety replay`, and go before the demo's own. With
# --trace the cases are those that suit any recording. Bazel starts us in the
# folder that holds what was built.
set -euo pipefail

checkout=$(cd "$(dirname "$(readlink -f "$0")")/../.." && pwd)
python=${MOIETY_PYTHON:-$checkout/.venv/bin/python}
traces=$PWD/bench/traces
trace=
options=()
is_json=
for word in "$@"; do
    case $word in
    --trace=*) trace=${word#*=} ;;
    --json) is_json=yes ;&
    *) options+=("$word") ;;
    esac
done

if [ ! -x "$python" ]; then
    printf 'demo: no Python environment at %s: ./bazelw run %s\n' \
        "$python" '//bench:demo makes it' >&2
    exit 1
fi
export PYTHONPATH=$PWD/emm/site
export MOIETY_REPLAY=$PWD/bench/replay/replay
# What the recordings ask for, and what the subjects take above it.
export MOIETY_STANDIN_MEMORY=${MOIETY_STANDIN_MEMORY:-130GiB}
# Allocators are there because a driver's calls are slow: so are these.
export MOIETY_STANDIN_COST=${MOIETY_STANDIN_COST:-h200}

# The user's folder, if it can be written into.
cd "${BUILD_WORKING_DIRECTORY:-.}"
folder=$PWD
[ -w "$folder" ] || folder=$(mktemp -d)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
parts=0
status=0

# part TITLE SAYS OPTION... -- TRACE: replays, and keeps the rows behind their
# heading. No title has a character that JSON would escape.
part()
{
    local title=$1 says=$2
    shift 2
    parts=$((parts + 1))
    [ -n "$is_json" ] || printf '%s\n\n' "$parts. $title"
    printf '{"kind": "heading", "title": "%s", "says": "%s"}\n' \
        "$title" "$says" >>"$work/rows"
    local ended=0
    rm -f "$work/part"
    "$python" -B -m moiety replay --driver=standin --rows="$work/part" \
        "${@:1:$#-2}" ${options[@]+"${options[@]}"} -- "${@: -1}" || ended=$?
    [ "$ended" -eq 0 ] || status=$ended
    [ -s "$work/part" ] || exit "$status"
    cat "$work/part" >>"$work/rows"
    [ -n "$is_json" ] || echo
}

pictured=(--mode=serial --samples=1000 --map)
safe=--subject=moiety,best-fit,best-fit-expandable,cuda-malloc
many=(--mode=concurrent --threads=16 "$safe")
part "Many threads at once" "A program with many threads asks for memory in\
 all of them at the same time, as fast as they can. The recording that comes\
 with the demo is of a server with 16\u00a0threads, each with a stream of its\
 own." \
    "${many[@]}" --repeats=5 -- "${trace:-$traces/server.mtrace.gz}"
part "A device that lags behind" "The same, while each call has work queued\
 behind it. A freed block may serve another stream only when the work on its\
 own is over: the allocator waits, keeps the block for its stream, or takes\
 more memory." \
    "${many[@]}" --repeats=3 --lag=work:50 -- \
    "${trace:-$traces/server.mtrace.gz}"
if [ -z "$trace" ]; then
    part "A tight limit" "The calls of the same server, made one after the\
 other, with about three times the memory that it has live at most. An\
 allocator that keeps what was freed for the stream that freed it runs out." \
        "${pictured[@]}" --limit=134217728 --repeats=3 "$safe" -- \
        "$traces/server.mtrace.gz"
fi
part "One thread and one stream" "The opposite case, where nothing is gained\
 by what Moiety does for many threads: look here for what it costs. The\
 recording that comes with the demo is of a language model that serves\
 400\u00a0requests." \
    "${pictured[@]}" --bisect --repeats=3 \
    --subject=moiety,best-fit,best-fit-expandable,pow2-buddy -- \
    "${trace:-$traces/serving.mtrace.gz}"

report=$folder/moiety-demo.html
"$python" -B -m moiety._report "$work/rows" "$report"
[ -n "$is_json" ] || printf 'The report is %s\n' "$report"
exit "$status"
