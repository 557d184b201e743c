#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The demo: what a language model's server allocated, replayed on Binade, on a
# best-fit allocator and on a textbook's buddy, in the order of the recording
# and then by eight threads at once. Prints tables and writes a report.
#
# usage: bazel run //bench:demo -- [--trace=FILE] [OPTION]...
#
# The options are those of `binade replay`. Bazel starts us in the folder that
# holds what was built.
set -euo pipefail

checkout=$(cd "$(dirname "$(readlink -f "$0")")/../.." && pwd)
python=${BINADE_PYTHON:-$checkout/.venv/bin/python}
trace=$PWD/bench/traces/serving.btrace.gz
options=()
for word in "$@"; do
    case $word in
    --trace=*) trace=${word#*=} ;;
    *) options+=("$word") ;;
    esac
done

if [ ! -x "$python" ]; then
    printf 'demo: no Python environment at %s: ./bazelw run %s\n' \
        "$python" '//bench:demo makes it' >&2
    exit 1
fi
export PYTHONPATH=$PWD/emm/site
export BINADE_REPLAY=$PWD/bench/replay/replay
# What the recording asks for, and what the subjects take above it.
export BINADE_STANDIN_MEMORY=${BINADE_STANDIN_MEMORY:-130GiB}

# The user's folder, if it can be written into.
cd "${BUILD_WORKING_DIRECTORY:-.}"
folder=$PWD
[ -w "$folder" ] || folder=$(mktemp -d)
exec "$python" -B -m binade replay --driver=standin \
    --subject=binade,best-fit,pow2-buddy --mode=serial,concurrent --threads=8 \
    --repeats=3 --bisect --html="$folder/binade-demo.html" \
    ${options[@]+"${options[@]}"} -- "$trace"
