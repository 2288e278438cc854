#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Variables: errors name variable, value and allowed form, before any rank starts; unknown ones once per job.
. "$(dirname "$0")/launcher_lib.sh"
mpi=$PWD/tests/mp/mpi_errors
manual=$(dirname "$0")/../../docs/tuning.md defs=$(dirname "$0")/../../src/runtime/vars.def

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
says "$err" "one of auto|host|mailbox|tasks"
# Old names, and old values, are refused with the new ones.
expect 2 "$run" -n 1 -x HEDDLE_COLL_LEVELS=2 "$job" where
says "$err" "HEDDLE_COLL_LEVELS=2: the variable is called HEDDLE_COLL_HIERARCHY: set that instead"
lines "$err" 1
expect 2 "$run" -n 1 -x HEDDLE_COLL_EXECUTOR=direct "$job" where
says "$err" "HEDDLE_COLL_EXECUTOR=direct: the value is called mailbox: set that instead"
lines "$err" 1
expect 9 env HEDDLE_COLL_READS_MIN=1k "$job" where
says "$err" "^heddle: HEDDLE_COLL_READS_MIN=1k: .*HEDDLE_COLL_SINGLE_COPY_MIN"
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

# A value that cannot be used is reported, once, with the value used instead.
adjusted() { expect 0 "$run" -x "$1" -n 2 "$mpi" returned; says "$err" "rank 0 (.*): warning: $1: $2 is used: "; lines "$err" 1; }
adjusted HEDDLE_SQ_DEPTH=3 16
adjusted HEDDLE_SQ_DEPTH=100 128
adjusted HEDDLE_SRQ_DEPTH=1 16
adjusted HEDDLE_RING_MAX=1g 196592
adjusted HEDDLE_RING_SIZE=100 0
adjusted HEDDLE_RING_SIZE=1g 512k
adjusted HEDDLE_DCI_COUNT=0 1
for v in HEDDLE_SQ_DEPTH=128 HEDDLE_RING_MAX=4k HEDDLE_RING_SIZE=0 HEDDLE_RING_SIZE=64k HEDDLE_EAGER_MAX=1k; do
	expect 0 "$run" -x $v -n 2 "$mpi" returned
	[ ! -s "$err" ] || fail "noise about $v"
done

# Receives are bounded by the host's memory: at least 16 of them, as long as a message may be, for each of its ranks.
memory=$(sed -n 's/^MemTotal: *\([0-9]*\) kB/\1/p' /proc/meminfo)
if [ "$memory" -lt $((128 * 1024 * 1024)) ]; then
	expect 1 "$run" -x HEDDLE_EAGER_MAX=1g -n 2 "$mpi" returned
	says "$err" "HEDDLE_EAGER_MAX=1073741824: each process keeps at least 16 receives of this size posted.* at most [0-9]* here"
fi
expect 0 "$run" -x HEDDLE_EAGER_MAX=1m -x HEDDLE_SRQ_DEPTH=$((memory / 2048)) -n 2 "$mpi" returned
says "$err" "rank 0 (.*): warning: HEDDLE_SRQ_DEPTH=[0-9]*: [0-9]* is used: the pools of this host's processes"

# Settings that must be the same on all ranks are compared: a difference is reported with both values, and the job ends.
expect 1 "$run" -n 2 "$mpi" returned : -x HEDDLE_EAGER_MAX=16k -x HEDDLE_COLL_EXECUTOR=host -x HEDDLE_SPIN=7 -n 1 "$mpi" returned
says "$err" "rank 2 (.*): HEDDLE_EAGER_MAX=16k here, 8k on rank 0: this variable must be the same on all ranks"
says "$err" "rank 2 (.*): HEDDLE_COLL_EXECUTOR=host here, auto on rank 0"
says_not "$err" "HEDDLE_SPIN"
says_not "$err" "HEDDLE_COLL_DEPTH"
expect 0 "$run" -x HEDDLE_EAGER_MAX=8k -n 1 "$mpi" returned : -x HEDDLE_EAGER_MAX=8192 -x HEDDLE_SPIN=7 -n 1 "$mpi" returned
[ ! -s "$err" ] || fail "noise about the same value"
# The kinds of queues decide which executor runs a collective; in which order they are named does not matter.
expect 1 "$run" -n 1 "$mpi" returned : -x HEDDLE_TRANSPORT=ud -n 1 "$mpi" returned
says "$err" "rank 1 (.*): HEDDLE_TRANSPORT=ud here, \"\" on rank 0"
expect 0 "$run" -x HEDDLE_TRANSPORT=ud,rc -n 1 "$mpi" returned : -x HEDDLE_TRANSPORT=rc,ud -n 1 "$mpi" returned
[ ! -s "$err" ] || fail "noise about the same kinds"
expect 0 ./heddle_info --vars
grep -A 1 '^HEDDLE_EAGER_MAX' "$out" | grep -q "the same on all ranks" || fail "not told by heddle_info"
# Every variable that the manual marks is among them, and the other way round.
marked=$(sed -n 's/^| *\(.*\) \*\*=\*\* |.*/\1/p' "$manual" | tr -d '`,' | tr ' ' '\n' | sed 's/^_/HEDDLE_COLL_/' | sort)
checked=$(sed -n 's/^HDL_VAR_ALIKE([a-z_]*, "\([A-Z_]*\)".*/\1/p' "$defs" | sort)
[ "$marked" = "$checked" ] || fail "tuning.md marks $marked, checked are $checked"
exit 0
