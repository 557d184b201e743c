#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# race_stress.sh PROGRAM: the races, for minutes.
HEAP_RACE_ROUNDS=8000 exec "$1"
