#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Variables: errors name variable, value and allowed form, before any rank starts; unknown ones once per job.
. "$(dirname "$0")/launcher_lib.sh"

expect 2 env HEDDLE_EAGER_MAX=64q "$run" -n 4 "$job" where
says "$err" "^heddlerun: HEDDLE_EAGER_MAX=64q: .*allowed is a whole number of bytes, with k, m or g"
lines "$err" 1
[ -s "$out" ] && fail "ranks were started"
expect 2 "$run" -n 1 -x HEDDLE_DEBUG=maybe "$job" where
says "$err" "HEDDLE_DEBUG=maybe"
expect 2 "$run" -n 1 -x HEDDLE_INIT_TIMEOUT=30 "$job" where
says "$err" "with its unit us, ms or s"
expect 2 "$run" -n 1 -x HEDDLE_TRANSPORT=rc,tcp "$job" where
says "$err" "some of rc,ud,xrc,dc"
expect 2 "$run" -n 1 -x HEDDLE_COLL_EXECUTOR=gpu "$job" where
says "$err" "one of auto|host|hca"
# Without heddlerun the library itself refuses.
expect 9 env HEDDLE_EAGER_MAX=-1 "$job" where
says "$err" "^heddle: HEDDLE_EAGER_MAX=-1"

expect 0 env HEDDLE_EAGER_MXA=1k HEDDLE_CC=cc "$run" -n 4 "$job" where
says "$err" "rank 0 .*HEDDLE_EAGER_MXA is not a variable.*did you mean HEDDLE_EAGER_MAX?"
lines "$err" 1
expect 0 env HEDDLE_SOMETHING_ELSE_ALTOGETHER=1 "$job" where
says "$err" "HEDDLE_SOMETHING_ELSE_ALTOGETHER is not a variable"
says_not "$err" "did you mean"

# Those of libshca, also where no rank but a stranger to MPI is started; a name with the wrong prefix.
expect 0 env SHCA_FABIRC=x "$run" -n 4 "$job" where
says "$err" "rank 0 .*SHCA_FABIRC is not a variable.*did you mean SHCA_FABRIC?"
lines "$err" 1
expect 0 env SHCA_JION_MS=5 SHCA_DEATH_MS=50 ./shcarun true
says "$err" "^shcarun: .*SHCA_JION_MS is not a variable.*did you mean SHCA_JOIN_MS?"
lines "$err" 1
expect 0 env HEDDLE_DEATH_MS=50 "$job" where
says "$err" "did you mean SHCA_DEATH_MS?"
expect 0 env SHCA_DEBUGG=1 "$job" where
says "$err" "did you mean SHCA_DEBUG?"

# Debug lines come from every rank, and only then.
expect 0 env HEDDLE_DEBUG=1 "$run" -n 3 "$job" where
lines "$err" 3
says "$err" "^heddle: rank 2 (.*): debug: rank 2 of 3"
exit 0
