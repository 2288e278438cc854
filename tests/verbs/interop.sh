#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Unmodified verbs programs on the software HCA: a table of program, case and result.
#   passed    the program ended with 0 on both sides
#   refused   the program ended as on hardware that lacks the same feature, and printed the reason
#   FAILED    anything else
# Without an argument a selection, which takes less than a minute. `all`: everything, and docs/interop.md must have that table;
# `write`: renews the table there; `cm`: the programs of RDMA CM only.
. "${srcdir:-$(dirname "$0")/../..}/tests/verbs/common.sh"
what=${1:-selection}
case $what in selection|all|write|cm) ;; *) echo "usage: interop.sh [all|write|cm]" >&2; exit 2 ;; esac
page=${srcdir:-$(dirname "$0")/../..}/docs/interop.md
[ -r "$page" ] || { echo "interop.sh: no $page" >&2; exit 2; }
rows=$tmp/rows
: >"$rows"
export UCX_NET_DEVICES=shca0:1 UCX_WARN_UNUSED_ENV_VARS=n

have() {
	command -v "$1" >/dev/null
}
# row PROGRAM CASE RESULT [REASON]
row() {
	printf '%s|%s|%s|%s\n' "$1" "$2" "$3" "$4" >>"$rows"
	[ "$3" != FAILED ] && return
	echo "FAILED: $1: $2" >&2
	for f in server client; do
		[ -s "$tmp/$f.out" ] && { echo "--- $f" >&2; tail -n 8 "$tmp/$f.out" >&2; }
	done
	echo yes >"$tmp/failed"
}
# judge PROGRAM CASE STATUS REFUSAL REASON: passed where REFUSAL is empty, else refused with that text (a pattern) in the output,
# but not by a signal or for want of time. 255 is an exit(-1).
judge() {
	if [ "$3" = 0 ] && [ -z "$4" ]; then
		row "$1" "$2" passed
	elif [ "$3" != 0 ] && [ "$3" != 124 ] && { [ "$3" -lt 128 ] || [ "$3" = 255 ]; } && [ -n "$4" ] && cat "$tmp/server.out" "$tmp/client.out" | grep -aqi -- "$4"; then
		row "$1" "$2" refused "$5"
	else
		row "$1" "$2" FAILED
	fi
}
# two PROGRAM CASE REFUSAL REASON COMMAND...: a server and a client of that program, which take -p PORT, the client a host, too
two() {
	program=$1
	name=$2
	refusal=$3
	reason=$4
	shift 4
	# a case that has had no time on a loaded machine has another try
	for try in 1 2; do
		free_port
		timeout 400 "$shcarun" --debug "$@" -p $port >"$tmp/server.out" 2>&1 &
		server=$!
		pids="$pids $server"
		until listening $port || ! kill -0 $server 2>/dev/null; do sleep 0.05; done
		timeout 400 "$shcarun" --debug "$@" -p $port 127.0.0.1 >"$tmp/client.out" 2>&1
		status=$?
		wait $server
		other=$?
		[ $other -le $status ] || status=$other
		[ $status = 124 ] || is_unmeasured || break
	done
	judge "$program" "$name" $status "$refusal" "$reason"
}

# ---- qperf: a server that serves many clients --------------------------------------------------------------------
qperf_tests='ver_rc_compare_swap ver_rc_fetch_add rc_lat ud_lat uc_lat rc_rdma_read_lat rc_rdma_write_poll_lat'
[ $what = selection ] || qperf_tests='rc_bw rc_bi_bw rc_lat uc_bw uc_bi_bw uc_lat ud_bw ud_bi_bw ud_lat rc_rdma_read_bw rc_rdma_read_lat
	rc_rdma_write_bw rc_rdma_write_lat rc_rdma_write_poll_lat uc_rdma_write_bw uc_rdma_write_lat uc_rdma_write_poll_lat
	rc_compare_swap_mr rc_fetch_add_mr ver_rc_compare_swap ver_rc_fetch_add'
qperf_all() {
	free_port
	timeout 500 "$shcarun" --debug qperf -lp $port >"$tmp/server.out" 2>&1 &
	server=$!
	pids="$pids $server"
	until listening $port || ! kill -0 $server 2>/dev/null; do sleep 0.05; done
	for t in $qperf_tests; do
		timeout 60 "$shcarun" --debug qperf -lp $port -t 1 127.0.0.1 "$t" >"$tmp/client.out" 2>&1
		status=$?
		grep -q '=' "$tmp/client.out" || status=1
		judge qperf "$t" $status
	done
	kill $server
	wait $server 2>/dev/null
	for t in xrc_lat xrc_bw xrc_bi_bw; do
		: >"$tmp/server.out"
		timeout 60 "$shcarun" qperf 127.0.0.1 $t >"$tmp/client.out" 2>&1
		judge qperf $t $? 'bad test' "Debian builds qperf without it"
	done
}

# ---- UCX ----------------------------------------------------------------------------------------------------------
ucx_all() {
	: >"$tmp/server.out"
	timeout 60 "$shcarun" --debug ucx_info -d >"$tmp/client.out" 2>&1
	status=$?
	for t in rc_verbs ud_verbs; do
		awk -v t=$t '/Transport:/ { seen = $3 == t } seen && /Device: shca0:1/ { f = 1 } END { exit !f }' "$tmp/client.out" || status=1
	done
	judge ucx_info -d $status
	single='am_lat put_lat get am_bw put_bw add_mr fadd cswap swap'
	[ $what = selection ] && single='am_lat fadd'
	for t in rc_verbs ud_verbs; do
		for test in $single; do
			refusal=
			case $t/$test in
			ud_verbs/am_*) ;;
			ud_verbs/*) refusal='does not support' reason='UD has SEND only' ;;
			rc_verbs/swap) refusal='does not support' reason='verbs have no swap' ;;
			rc_verbs/get) refusal='does not support operation get short' reason='verbs have no READ into the request: `-D zcopy` passes' ;;
			esac
			two ucx_perftest "$test, $t" "$refusal" "$reason" ucx_perftest -d shca0:1 -x $t -t "$test" -n 1000
		done
	done
	two ucx_perftest "get -D zcopy -s 4096, rc_verbs" '' '' ucx_perftest -d shca0:1 -x rc_verbs -t get -D zcopy -s 4096 -n 1000
	protocols='tag_lat tag_bw tag_sync_lat ucp_put_lat ucp_put_bw ucp_get ucp_add ucp_fadd ucp_swap ucp_cswap stream_bw stream_lat ucp_am_lat ucp_am_bw'
	[ $what = selection ] && protocols='tag_lat ucp_get'
	for t in ud_verbs rc_verbs,ud_verbs; do
		for test in $protocols; do
			for size in 8 100000; do
				case $test in ucp_add | ucp_fadd | ucp_swap | ucp_cswap) [ $size = 8 ] || continue ;; esac
				export UCX_TLS=$t
				two ucx_perftest "$test -s $size, UCX_TLS=$t" '' '' ucx_perftest -t "$test" -s $size -n 200
			done
		done
	done
	export UCX_TLS=rc_verbs
	two ucx_perftest "tag_lat, UCX_TLS=rc_verbs" 'no auxiliary transport' 'RC is connected over UD' ucx_perftest -t tag_lat -n 200
	unset UCX_TLS
}

# ---- Open MPI over UCX ----------------------------------------------------------------------------------------------
openmpi_all() {
	ompi_info 2>/dev/null | grep -q 'pml: ucx' || return
	cat >"$tmp/job.c" <<'EOF'
#include <mpi.h>
static int data[50000];
int main(int argc, char **argv)
{
	int rank, size, bad = 0;
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	for (int i = 0; i < 100; i++) {
		int mine = rank + i, sum = 0, n = i % 10 ? 10 : 50000;
		MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
		bad |= sum != size * (size - 1) / 2 + size * i;
		for (int k = 0; k < n; k++)
			data[k] = rank == i % size ? k + i : 0;
		MPI_Bcast(data, n, MPI_INT, i % size, MPI_COMM_WORLD);
		bad |= data[n - 1] != n - 1 + i;
	}
	MPI_Finalize();
	return bad;
}
EOF
	mpicc.openmpi "$tmp/job.c" -o "$tmp/job" >"$tmp/client.out" 2>&1 || { row "Open MPI" compiling FAILED; return; }
	: >"$tmp/server.out"
	for t in ud_verbs rc_verbs,ud_verbs; do
		# neither Open MPI's shared-memory nor its openib component is to be used
		OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 timeout 100 mpirun.openmpi -n 3 --oversubscribe --mca pml ucx \
			--mca osc ^ucx --mca btl ^openib,vader -x UCX_TLS=$t,self -x UCX_NET_DEVICES "$shcarun" "$tmp/job" >"$tmp/client.out" 2>&1
		judge 'Open MPI' "pml ucx, 3 ranks, UCX_TLS=$t,self" $?
	done
}

# ---- rdma-core's examples and perftest ------------------------------------------------------------------------------
pingpongs() {
	for kind in rc uc ud srq; do
		for options in '' -c -e '-g 0'; do
			# shellcheck disable=SC2086
			two ibv_${kind}_pingpong "$options" '' '' ibv_${kind}_pingpong $options
		done
	done
	for options in -o '-o -P' '-o -O' -N '-N -e' -j -t '-m 4096 -s 100000 -n 100'; do
		# shellcheck disable=SC2086
		two ibv_rc_pingpong "$options" '' '' ibv_rc_pingpong $options
	done
}
# connectx FUNCTION...: programs run by FUNCTION see a ConnectX, which their rows show
as=
connectx() {
	export SHCA_IDENTITY=connectx
	as='as a ConnectX: '
	"$@"
	unset SHCA_IDENTITY
	as=
}
ethernet() {
	export SHCA_LINK=ethernet
	as='on an Ethernet port: '
	"$@"
	unset SHCA_LINK
	as=
}
ports() {
	export SHCA_PORTS=2
	as='with two ports: '
	"$@"
	unset SHCA_PORTS
	as=
}
connectx_ethernet() {
	export SHCA_IDENTITY=connectx SHCA_LINK=ethernet
	as='as a ConnectX on an Ethernet port: '
	"$@"
	unset SHCA_IDENTITY SHCA_LINK
	as=
}
# perf PROGRAM OPTIONS [REFUSAL REASON]
perf() {
	# shellcheck disable=SC2086
	two "$as$1" "$2" "${3:-}" "${4:-}" "$1" $2 -n 100
}
perftest_dc() {
	for how in lat bw; do
		for op in send write read atomic; do perf ib_${op}_$how '-c DC'; done
		perf ib_send_$how '-c DC -a'
		perf ib_send_$how '-c DC --log_dci_streams=3' 'create qp' 'DC initiators have no streams'
	done
	for op in send write read; do perf ib_${op}_bw '-c DC -b -q 4'; done
}
perftest_all() {
	for how in lat bw; do
		for t in RC UC UD XRC; do perf ib_send_$how "-c $t -s 1024"; done
		for t in RC UC XRC; do perf ib_write_$how "-c $t -s 1024"; done
		for t in RC XRC; do
			perf ib_read_$how "-c $t -s 1024"
			perf ib_atomic_$how "-c $t"
			perf ib_atomic_$how "-c $t -A CMP_AND_SWAP"
		done
		for op in send write read; do
			perf ib_${op}_$how '-c DC' 'unable to create qp' "Debian's perftest makes DC queues by mlx5dv on an mlx5 only"
		done
		for o in -a -e --use-srq '-I 64' '-x 0' '-m 1024' --odp --use_old_post_send '-u 10 -S 1' --ipv6; do
			perf ib_send_$how "$o"
		done
		perf ib_send_$how -R
		perf ib_send_$how '-R -c UD'
		perf ib_send_$how '-R -c UC' 'UC is not supported' "perftest has no UC over RDMA CM"
		perf ib_send_$how '-R -c XRC' 'XRC does not support' "perftest has no XRC over RDMA CM"
		perf ib_send_$how '-g -c UD'
		perf ib_send_$how --use_hugepages 'hugepages' 'the host has no huge pages'
	done
	for o in -b '-q 4' '-l 4' '-b -q 8 -a' '-Q 10' '-t 16' '-r 16' -N '-c UD -q 4' '-c UC -b' '-c XRC -b -q 4' '-e -b' '-e -q 4' \
		'--use-srq -q 4 -b' '--mr_per_qp -q 2' '--inline_recv 32' '--recv_post_list 4' '--rate_limit=1 --rate_limit_type=SW'; do
		perf ib_send_bw "$o"
	done
	perf ib_send_bw -O 'unable to query port 2' 'one port'
	for op in send write read atomic; do ports perf ib_${op}_bw '-O -q 2'; done
	perf ib_send_bw '--rate_limit=1 --rate_limit_type=HW' 'rate limit is not supported' 'no packet pacing'
	for op in read atomic; do perf ib_${op}_bw '-q 4 -b -o 16'; done
	for o in '-q 64' '-b -a' '--flows 2' '-c UC -q 4'; do perf ib_write_bw "$o"; done
	connectx perftest_dc
	: >"$tmp/server.out"
	timeout 60 "$shcarun" --debug raw_ethernet_bw --client -E 00:00:00:00:00:01 -n 100 >"$tmp/client.out" 2>&1
	judge raw_ethernet_bw --client $? . 'the link is InfiniBand'
}

# raw PROGRAM OPTIONS [CLIENT-OPTIONS [REFUSAL REASON]]: perftest's of raw packet queue pairs
raw() {
	raw_pair "$1" "$2 -n 100" "${3:-$2} -n 100"
	judge "$as$1" "$2" $? "${4:-}" "${5:-}"
}
raw_all() {
	for how in bw lat; do
		for o in '-s 64' '-s 9000 -m 9600' '-s 1024 -J 10.0.0.1 -j 10.0.0.2' '-s 1024 -J 10.0.0.1 -j 10.0.0.2 -K 5000 -k 6000' \
			'-s 1024 -J 10.0.0.1 -j 10.0.0.2 -K 5000 -k 6000 --tcp' '-s 1024 -J fe80::1 -j fe80::2 -K 5000 -k 6000 --raw_ipv6' --vlan_en '-I 64'; do
			raw raw_ethernet_$how "$o"
		done
	done
	for o in -b '-q 2' '-J 10.0.0.1 -j 10.0.0.2 -K 5000 -k 6000 --flows 4' '-l 4'; do raw raw_ethernet_bw "$o"; done
	for o in --promiscuous --sniffer; do raw raw_ethernet_bw "$o" '-E 02:00:00:00:00:77'; done
	raw raw_ethernet_bw '--rate_limit=100 --rate_limit_type=PP --rate_units=M' '' "Pacing isn't supported" 'no packet pacing'
	raw raw_ethernet_burst_lat '--rate_limit=20 --rate_limit_type=HW' '' 'failed to accept HW rate limit' 'no packet pacing'
	: >"$tmp/client.out"
	timeout 60 "$shcarun" --debug raw_ethernet_fs_rate --server -B 02:00:00:00:00:01 -n 1000 >"$tmp/server.out" 2>&1
	judge "${as}raw_ethernet_fs_rate" --server $?
}

# ---- RDMA CM ----------------------------------------------------------------------------------------------------------
# cm PROGRAM CASE SERVER CLIENT [TRIES]: the client is started until it reaches the server, since none of these programs says that it
# listens. A server that serves for ever is ended. TRIES: runs of both, where a datagram may come too early.
cm() {
	for try in $(seq "${5:-1}"); do
		# shellcheck disable=SC2086
		timeout 200 "$shcarun" $3 >"$tmp/server.out" 2>&1 &
		server=$!
		pids="$pids $server"
		sleep 0.5
		n=0
		while :; do
			# shellcheck disable=SC2086
			timeout 200 "$shcarun" $4 >"$tmp/client.out" 2>&1
			status=$?
			n=$((n + 1))
			[ $status != 0 ] && [ $status != 124 ] && [ $n -lt 50 ] && kill -0 $server 2>/dev/null || break
			sleep 0.1
		done
		case $1 in
		rcopy | cmtime | udpong) kill $server 2>/dev/null; wait $server 2>/dev/null ;;
		*)
			[ $status = 0 ] || kill $server 2>/dev/null
			wait $server
			other=$?
			[ $other -le $status ] || status=$other ;;
		esac
		[ $status != 0 ] || break
	done
	judge "$1" "$2" $status
}
cm_all() {
	for o in '-v -V -a 127.0.0.1' '-v -V -a ::1' '-q -a 127.0.0.1'; do
		cm rping "$o" "rping -s -C 20 $o" "rping -c -C 20 $o"
	done
	for o in '-c 50 -C 10' '-m -c 50' '-P ib'; do
		cm ucmatose "$o" "ucmatose $o" "ucmatose $o -s 127.0.0.1"
	done
	gid=$("$shcarun" cat /sys/class/infiniband/shca0/ports/1/gids/0)
	for o in '' ' -P ib'; do
		cm ucmatose "-f gid$o" "ucmatose -f gid$o -b $gid" "ucmatose -f gid$o -s $gid"
	done
	cm udaddy '-f gid' "udaddy -f gid -b $gid" "udaddy -f gid -s $gid"
	for o in '-c 5' '-p 0x0002'; do
		cm udaddy "$o" "udaddy $o" "udaddy $o -s 127.0.0.1"
	done
	cm mckey '-m 239.1.1.1' 'mckey -b 127.0.0.1 -m 239.1.1.1' 'mckey -s -b 127.0.0.1 -m 239.1.1.1' 3
	cm rdma_client '' rdma_server 'rdma_client -s 127.0.0.1'
	cm rdma_xclient '' rdma_xserver 'rdma_xclient -s 127.0.0.1'
	cm rdma_xclient '-c x' 'rdma_xserver -c x' 'rdma_xclient -c x -s 127.0.0.1'
	cm cmtime '-c 100' cmtime 'cmtime -c 100 -s 127.0.0.1'
	for o in '-S 64 -C 1000' '-S 1048576 -C 50'; do
		cm rstream "$o" "rstream $o" "rstream $o -s 127.0.0.1"
	done
	cm riostream '-S 4096 -C 100' 'riostream -S 4096 -C 100' 'riostream -S 4096 -C 100 -s 127.0.0.1'
	cm udpong '-S 64 -C 100' 'udpong -b 127.0.0.1 -S 64 -C 100' 'udpong -S 64 -C 100 -s 127.0.0.1'
	head -c 1000000 /dev/urandom >"$tmp/sent"
	cm rcopy '' rcopy "rcopy $tmp/sent 127.0.0.1:$tmp/received"
	cmp "$tmp/sent" "$tmp/received" || row rcopy 'another file' FAILED
	for o in '-p verbs -e msg' '-p verbs -e dgram' '-p verbs;ofi_rxd -e rdm'; do
		cm fi_pingpong "$o" "fi_pingpong $o -I 100" "fi_pingpong $o -I 100 127.0.0.1"
	done
	# ofi_rxm closes an endpoint of a peer that has shut down before polling all completions, with any provider: a client that is
	# kept from running for longer than this interval at the end waits for ever for the last message
	export FI_OFI_RXM_CM_PROGRESS_INTERVAL=500000
	o='-p verbs;ofi_rxm -e rdm'
	cm fi_pingpong "$o, FI_OFI_RXM_CM_PROGRESS_INTERVAL=500000" "fi_pingpong $o -I 100" "fi_pingpong $o -I 100 127.0.0.1"
	unset FI_OFI_RXM_CM_PROGRESS_INTERVAL
}

# ---- infiniband-diags -------------------------------------------------------------------------------------------------
# diag REFUSAL REASON PROGRAM OPTION...
diag() {
	refusal=$1
	reason=$2
	program=$3
	shift 3
	: >"$tmp/server.out"
	timeout 100 "$shcarun" --debug "$program" "$@" >"$tmp/client.out" 2>&1
	judge "$as$program" "$*" $? "$refusal" "$reason"
}
diags_all() {
	for o in '' -l -p; do
		# shellcheck disable=SC2086
		diag '' '' ibstat $o
	done
	for o in 'nodeinfo 1' 'nodedesc 1' 'portinfo 1 1' 'pkeys 1' 'guidinfo 1' '-D nodeinfo 0' '-D nodedesc 0,1'; do
		# shellcheck disable=SC2086
		diag '' '' smpquery $o
	done
	for o in 'sl2vl 1' 'switchinfo 1'; do
		# shellcheck disable=SC2086
		diag . 'no such table: one virtual lane, no switch' smpquery $o
	done
	for o in '' -x '-a 1'; do
		# shellcheck disable=SC2086
		diag '' '' perfquery $o
	done
	diag 'perf reset' 'counters are not reset' perfquery -R 1
	diag sampctlquery 'no samples' perfquery -c
	for o in '' -p -c -s -x -g -m --list '--src-to-dst 1:1' NR PIR SMIR LR GIR PKTR PR MCMR; do
		# shellcheck disable=SC2086
		diag '' '' saquery $o
	done
	for o in -S -I LFTR; do
		# shellcheck disable=SC2086
		diag 'combination is not supported' 'no such records' saquery $o
	done
	diag '' '' sminfo
	diag '' '' ibaddr
	diag '' '' ibhosts
	diag '' '' ibportstate 1 1 query
	diag '' '' ibtracert 1 1
	diag '' '' smpdump 1 0x15
	diag '' '' iblinkinfo
	diag '' '' ibqueryerrors
	for p in ibstat ibnetdiscover iblinkinfo; do ports diag '' '' $p; done
	ports diag '' '' smpquery portinfo 1 2
	ports diag '' '' perfquery -a 1
	diag 'No devices' 'a script that enters the directory' ibstatus
}

# ---- rdma-core's Python tests: each by its own result ----------------------------------------------------------------
# Skipped or failed for a reason that another device would give, too. The pattern matches the test's output.
# python_run AT-LEAST OPTION...: so many tests
runner=tests/run_tests.py
python_run() {
	least=$1
	shift
	(cd "$tmp" && exec timeout 900 "$OLDPWD/$shcarun" /usr/bin/python3 -W ignore $runner --dev shca0 -v "$@") >"$tmp/client.out" 2>&1
	# a test's line, then the result, perhaps on a later line
	/usr/bin/python3 - "$tmp/client.out" "$as" >>"$rows" <<'EOF'
import re, sys
reasons = [
	(r'Must be run by root|Eswitch|Ethernet link', 'the link is InfiniBand'), (r'DevX|devx', 'no DevX objects'),
	(r'DrDomain|Matcher', 'no steering by the program'), (r'UDP sport', 'mlx5dv has the call, the device does not'),
	(r'Crypto login', 'no cryptography'), (r'DCI caps', 'DC initiators have no streams'), (r'LAG', 'one port'),
	(r'CQE 128B', 'completions are not padded or compressed'), (r'schedule elements', 'no scheduling of packets'),
	(r'Create Mkey', 'memory keys without signatures'), (r'Mlx5DV QP', 'no signatures, no memcpy by the device'), (r'VAR alloc|UAR alloc|reserved QP|AH to QP|mlx5dv_query_port', 'mlx5dv has the call, the device does not'),
	(r'scapy', 'scapy is not installed'), (r'PCI device', 'no PCI device'), (r'non MLX5|not an MLX5', 'the device is no mlx5'), (r'non EFA', 'the device is no EFA'),
	(r'net interface', 'no network interface'), (r'dmabuf', 'no DMA-BUF'), (r'Ethernet link layer|skip RoCE', 'the link is InfiniBand'),
	(r'MW access|memory window|flags 18', 'no memory windows'), (r'Extended QP', 'no atomic WRITE'),
	(r'Converting timestamp', 'the device is no mlx5'), (r'Create Extended CQ', 'completions have no flow tag'), (r'Extended CQ', 'no tag matching'),
	(r'huge pages', 'the host has no huge pages'), (r'cuda', 'the host has no CUDA'), (r'[Ii]mport', 'no import of device memory'),
	(r'GID indices|gid indices', 'every entry of the GID table is a GID'), (r'No supported port', 'the link is InfiniBand'),
]
text = open(sys.argv[1], errors='replace').read()
program = sys.argv[2] + 'pyverbs'
ends = re.finditer(r'^(test_\w+) \((?:tests\.)?([\w.]+)\)(.*?)(?:\.\.\. |^)(?:libshca: [^\n]*\n)*(ok|FAIL|ERROR|skipped [\'"]([^\n]*)[\'"])$', text, re.S | re.M)
for m in ends:
	name, where, result, why = m[1], m[2], m[4], m[5] or ''
	module = where.split('.')[0]
	if result == 'ok':
		print(f'{program} {module}|{name}|passed|')
	elif name == 'test_rss_traffic' and result == 'ERROR':
		print(f'{program} {module}|{name}|refused|no receive work queues')
	elif name == 'test_multi_process_alloc_dm':
		print(f"{program} {module}|{name}|refused|a forked child does not have its parent's device")
	elif why:
		print(f'{program} {module}|{name}|' + next((f'refused|{r}' for p, r in reasons if re.search(p, why)), 'FAILED|' + why))
	else:
		print(f'{program} {module}|{name}|FAILED|')
total = int(re.search(r'^Ran (\d+) tests', text, re.M)[1]) if 'Ran ' in text else 0
EOF
	ran=$(sed -n 's/^Ran \([0-9]*\) tests.*/\1/p' "$tmp/client.out")
	skipped_classes=$(grep -ac "^setUpClass\|^skipped" "$tmp/client.out")
	[ "${ran:-0}" -gt "$least" ] || row "${as}pyverbs" "ran ${ran:-no} tests ($skipped_classes)" FAILED
}
# The tests of RDMA CM ask for the address of the device's network interface, which an adapter's directory in /sys names.
with_interface() {
	cat >"$tmp/tests/run_with_interface.py" <<'EOF'
import os.path, subprocess
exists, check_output = os.path.exists, subprocess.check_output
os.path.exists = lambda path: '/shca0/device/net' in str(path) or exists(path)
subprocess.check_output = lambda command, *a, **k: (
	b'lo\n' if command[0] == 'ls' and '/shca0/device/net' in command[1] else check_output(command, *a, **k))
__file__ = 'tests/run_tests.py'
exec(compile(open(__file__).read(), __file__, 'exec'))
EOF
	runner=tests/run_with_interface.py
	as='with an interface: '
	"$@"
	runner=tests/run_tests.py
	as=
}
python_all() {
	tests=/usr/share/doc/rdma-core/tests
	mkdir "$tmp/tests" && cp $tests/*.py "$tmp/tests/" || exit 99
	for f in $tests/*.py.gz; do gzip -dc "$f" >"$tmp/tests/$(basename "$f" .gz)"; done
	python_run 200
	with_interface python_run 9 -k test_rdmacm.
	connectx python_run 80 -k mlx5
	ethernet python_run 60 -k test_addr -k test_cq -k test_device -k test_flow -k test_mr -k test_qp -k test_rss -k test_shared_pd
	connectx_ethernet python_run 80 -k mlx5
}

if [ $what = cm ]; then
	need rping fi_pingpong
	cm_all
elif have qperf; then qperf_all; else echo "qperf is not installed"; fi
if [ $what = cm ]; then :; elif have ucx_perftest; then ucx_all; else echo "ucx-utils is not installed"; fi
if [ $what = all ] || [ $what = write ]; then
	if have mpicc.openmpi; then openmpi_all; else echo "libopenmpi-dev is not installed"; fi
	need ibv_rc_pingpong ib_send_lat rping fi_pingpong
	pingpongs
	perftest_all
	ethernet raw_all
	cm_all
	PATH=$PATH:/usr/sbin
	if have ibstat; then diags_all; else echo "infiniband-diags is not installed"; fi
	python_all
fi
[ -s "$rows" ] || skip "neither qperf nor ucx-utils is installed"

# one line for all cases of a program with one result
table() {
	echo '| program | result | cases | |'
	echo '|---|---|---|---|'
	awk -F'|' '{
		key = $1 "|" $3 "|" $4
		if (!(key in cases)) order[++n] = key
		name = $2 == "" ? "(no option)" : $1 ~ /pyverbs/ ? $2 : "`" $2 "`"
		cases[key] = cases[key] (cases[key] == "" ? "" : "; ") name
		count[key]++
	} END {
		for (i = 1; i <= n; i++) {
			split(order[i], k, "|")
			text = k[1] ~ /pyverbs/ ? count[order[i]] : cases[order[i]]
			printf "| %s | %s | %s | %s |\n", k[1], k[2], text, k[3]
		}
	}' "$rows"
	echo
	awk -F'|' '{ n[$3]++ } END { printf "%d cases: %d passed, %d refused, %d failed.\n", NR, n["passed"], n["refused"], n["FAILED"] }' "$rows"
}
table >"$tmp/table"
[ $what = write ] || cat "$tmp/table"
if [ $what = all ] || [ $what = write ]; then
	awk -v f="$tmp/table" '/^<!-- table -->/ { print; while ((getline l < f) > 0) print l; skip = 1; next } /^<!-- end -->/ { skip = 0 } !skip' \
		"$page" >"$tmp/page"
	if [ $what = write ]; then
		cat "$tmp/page" >"$page"
	else
		diff -u "$page" "$tmp/page" || fail "docs/interop.md has another table: tests/verbs/interop.sh write renews it"
	fi
fi
[ ! -e "$tmp/failed" ] && ! grep -q '|FAILED|' "$rows"
