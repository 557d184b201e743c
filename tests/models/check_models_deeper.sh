#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The models with more threads and rounds than every change can wait for.
set -uo pipefail
. tests/gates/expect.sh
. tests/models/need_spin.sh

export MODEL_MEMORY_MB=${MODEL_MEMORY_MB:-8000}
export MODEL_SEARCH=-DCOLLAPSE

holds() {
    expect_ok "holds: $*" bash tests/models/run_model.sh "tests/models/$1" \
        "${@:2}"
    printf '        %s\n' "$(grep 'states' <<<"$expect_output")"
}

holds epochs.pml -DTURNS=3
holds epochs.pml -DUSERS=2 -DROUNDS=1
holds exhaustion.pml -DIMPATIENT
holds extents.pml -DROUNDS=2 -DTURNS=0
holds extents.pml -DWORKERS=1 -DROUNDS=3 -DTURNS=2
holds extents.pml -DENDER
holds guards.pml -DRECORDERS=3 -DROUNDS=2
holds inbox.pml -DTAKERS=2
holds moves.pml -DTURNS=3
holds moves.pml -DHANDLES=1 -DGRAINS=2
holds moves.pml -DHANDLES=1 -DGRAINS=2 -DTURNS=3
holds moves.pml -DHANDLES=1 -DGROWERS=2 -DMOVES=1
holds moves.pml -DGROWERS=2 -DMOVES=1
holds orphans.pml -DEXITS=4
holds privates.pml -DUSERS=1 -DROUNDS=2
holds privates.pml -DUSERS=2 -DOTHERS=0 -DPOLLERS=2
holds segment.pml -DHOLDERS=2 -DGROWERS=1 -DROUNDS=4
finish
