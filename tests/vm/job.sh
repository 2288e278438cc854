# SPDX-License-Identifier: BSD-3-Clause
# Shared by the jobs in guests, which source this file. $build, $sources, $out, $guest and $guests are set by init.
export HEDDLE_DEVICE=rxe0
run=$build/heddlerun
failed=0
# in any case the job of the other guest ends with guest 1's job
[ "$guest" != 1 ] || trap 'touch "$out/served"' EXIT

# try SECONDS STATUS PATTERN [VARIABLE=VALUE...] COMMAND...: the command must end with that status within that time (an emulated CPU is some
# twenty times slower than a real one) and say a line that matches the extended regular expression.
try() {
	seconds=$1 status=$2 pattern=$3
	shift 3
	start=$(date +%s%N)
	timeout -k 5 "$seconds" env "$@" >/tmp/said 2>&1 </dev/null
	rc=$?
	took=$((($(date +%s%N) - start) / 1000000))
	if [ $rc = "$status" ] && grep -Eq -e "$pattern" /tmp/said; then
		echo "ok: $* ($took ms)"
	else
		echo "FAILED ($rc, $took ms): $*"
		tail -n 40 /tmp/said
		failed=1
	fi
}

# mpirun on both guests, $1 ranks on each
cat >/tmp/mpirun_two <<MPIRUN
#!/bin/sh
ranks=\$1
shift
exec env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun.openmpi --mca plm_rsh_agent $sources/tests/vm/rsh \\
	--mca oob_tcp_if_include eth0 --mca orte_tmpdir_base /tmp --mca plm_rsh_no_tree_spawn 1 --mca odls_base_sigkill_timeout 40 -x LD_LIBRARY_PATH -x HEDDLE_TRANSPORT \\
	\${HEDDLE_UD_TIMEOUT:+-x HEDDLE_UD_TIMEOUT} \${HEDDLE_COLL_EXECUTOR:+-x HEDDLE_COLL_EXECUTOR} \${HEDDLE_DEVICE:+-x HEDDLE_DEVICE} --host 10.9.0.1:\$ranks,10.9.0.2:\$ranks -n \$((2 * ranks)) "\$@"
MPIRUN
chmod +x /tmp/mpirun_two
export PATH=$PATH:/tmp LD_LIBRARY_PATH=$build/.libs

# lose HOW KIND: starts tests/vm/exchange on both guests, 2 ranks each, loses guest 2 (HOW is "ended" or "cut") when they exchange
# messages, and checks that both ranks of guest 1 end with an error that names rank, host, device, kind of queue and the observed
# failure. HEDDLE_UD_TIMEOUT is 10 s;
# RC gives up after 7 timeouts of 1.07 s, which rxe lets grow.
lose() {
	how=$1 kind=$2 words=$out/words
	export HEDDLE_TRANSPORT="$kind" HEDDLE_UD_TIMEOUT=10s
	rm -f "$words".*
	mpirun_two 2 "$build/tests/vm/exchange" 0 "$words" >/tmp/lost.said 2>&1 </dev/null &
	within 50 say 4 exchanges || { echo "FAILED: the ranks do not come to exchange messages"; tail -n 40 /tmp/lost.said "$words".*; exit 1; }
	echo "HEDDLE_TRANSPORT=$kind: all ranks exchange messages; guest 2 is $how"
	touch "$out/$how.2"
	start=$(date +%s)
	within 50 say 2 'rank [01] ends:'
	echo "after $(($(date +%s) - start)) s:"
	grep -hE 'failed|ends:' "$words".[01] | cut -c1-300
	for r in 2 3; do
		grep -Eiq "connection to rank $r on guest2 failed: rxe0 port 1, $kind" "$words".[01] || { echo "FAILED: rank $r is not named"; failed=1; }
	done
	for r in 0 1; do
		grep -q "rank $r ends:" "$words.$r" || { echo "FAILED: rank $r has not ended"; failed=1; }
	done
}
# So many lines of the ranks' words match the pattern.
say() { [ "$(cat "$words".[0-9] 2>/dev/null | grep -c "$2")" -ge "$1" ]; }

# within SECONDS COMMAND...: the command succeeds within that time
within() {
	by=$(($(date +%s) + $1))
	shift
	until "$@"; do
		[ "$(date +%s)" -lt $by ] || return 1
		sleep 0.2
	done
}
# No rank of tests/vm/collective runs on either guest; a rank that the launcher has not waited for yet is a zombie.
left() {
	running="ps -o stat= -C collective | grep '^[^Z]'"
	[ -z "$(sh -c "$running"; "$sources/tests/vm/rsh" 10.9.0.2 "$running")" ]
}
has() { [ "$(grep -Ec "$2" "$3" 2>/dev/null)" -ge "$1" ]; }
# So many ranks have said something in $out/enough.RANK (tests/vm/collective)
spoke() { [ "$(find "$out" -name 'enough.[0-9]' | wc -l)" -ge "$1" ]; }

# Whether of the ranks 0 to $2 all but the dead ones ($1, as in "3" or "2|3") have ended by MPI_ERR_PROC_ABORTED, a dead one is named,
# and no other rank. Reads /tmp/died.said and the ranks' output in $out.
told_of() {
	cat "$out"/enough.[0-9] >>/tmp/died.said
	grep -h 'ends:' "$out"/enough.[0-9] | cut -c1-200
	bad=$failed
	for r in $(seq 0 "$2"); do
		echo "$r" | grep -Eqx "$1" || grep -q "rank $r ends: MPI_ERR_PROC_ABORTED" /tmp/died.said || { echo "FAILED: rank $r has not ended by MPI_ERR_PROC_ABORTED"; failed=1; }
	done
	grep -Eo 'connection to rank [0-9]+|\(rank [0-9]+ of MPI_COMM_WORLD' /tmp/died.said | grep -Eo 'rank [0-9]+' | grep -Eo '[0-9]+$' | sort -u >/tmp/died.named
	grep -Eqx "$1" /tmp/died.named || { echo "FAILED: no dead rank is named"; failed=1; }
	grep -Evx "$1" /tmp/died.named && { echo "FAILED: these are named and live"; failed=1; }
	[ $failed = $bad ] || grep -E 'heddle|ends:|wrong' /tmp/died.said | cut -c1-300 | tail -n 12
}

# dies COLLECTIVE EXECUTOR DEAD KIND: 2 ranks on each guest are in collectives of all, and of each guest's, by turns; one of them is killed.
dies() {
	echo "HEDDLE_TRANSPORT=$4 HEDDLE_COLL_EXECUTOR=$2, rank $3 is killed in $1"
	export HEDDLE_TRANSPORT="$4" HEDDLE_COLL_EXECUTOR="$2" HEDDLE_UD_TIMEOUT=10s
	rm -f "$out/enough" "$out"/enough.*
	mpirun_two 2 "$build/tests/vm/collective" "$1" "$3" "$out/enough" >/tmp/died.said 2>&1 </dev/null &
	pid=$!
	within 180 spoke 1 || { echo "FAILED: the ranks do not come to their collectives"; tail -n 40 /tmp/died.said; failed=1; }
	start=$(date +%s%N)
	within 60 spoke 4
	echo "all have been told after $((($(date +%s%N) - start) / 1000000)) ms"
	touch "$out/enough"
	told_of "$3" 3
	# a rank without the error would keep its job, and the guest. The test does not wait for mpirun: mpirun and the other guest's
	# daemon sleep twice 40 s before they see the ended processes, one behind the other.
	within 90 left || {
		echo "FAILED: ranks have not ended"
		failed=1
		for where in "sh -c" "$sources/tests/vm/rsh 10.9.0.2"; do $where "pkill -KILL -x collective"; done
	}
	kill -KILL $pid
	wait $pid 2>/dev/null
}

# Guest 2's part: carries out guest 1's orders, until guest 2 is ended from outside or ordered to cut its link.
be_lost() {
	"$sources/tests/vm/rsh" --serve &
	until [ -e "$out/cut.2" ] || [ -e "$out/served" ]; do sleep 0.1; done
	[ ! -e "$out/cut.2" ] || ip link set eth0 down
	until [ -e "$out/served" ]; do sleep 0.1; done
}
