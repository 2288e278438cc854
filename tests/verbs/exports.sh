#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# One verb that is not interposed is a crash in the real library: symbols that the installed programs import must be exported by
# libshca, under
# the same version, or be known to touch no device object.
. "${srcdir:-$(dirname "$0")/../..}/tests/verbs/common.sh"
need readelf

# texts, rates, conversions, sysfs: nothing of a device goes in; or objects that this device never gives out
harmless='^(ibv_(wc_status|node_type|port_state|event_type)_str|ibv_rate_to_m(ult|bps)|m(ult|bps)_to_ibv_rate|ibv_fork_init|ibv_is_fork_initialized|ibv_(get_sysfs_path|read_sysfs_file|read_ibdev_sysfs_file)|ibv_copy_[a-z_]*|ibv_dofork_range|ibv_dontfork_range|mlx5dv_(dek_destroy|destroy_mkey))@'

symbols() {	# of file $1: imported (UND) or defined
	readelf -W --dyn-syms "$1" 2>/dev/null | awk -v want="$2" '$8 ~ /@/ && $8 ~ /ibv|mlx5dv/ { und = ($7 == "UND"); if (und == (want == "UND")) print $8 }' |
		sed 's/@@/@/' | sort -u
}
symbols "$library" DEF >"$tmp/exported"
[ -s "$tmp/exported" ] || fail "libshca exports nothing"

found=0
for program in /usr/bin/ibv_* /usr/bin/ib_* /usr/bin/raw_ethernet_*; do
	[ -x "$program" ] || continue
	found=$((found + 1))
	symbols "$program" UND >"$tmp/imported"
	missing=$(grep -Ev "$harmless" "$tmp/imported" | comm -23 - "$tmp/exported")
	[ -z "$missing" ] || fail "$program imports what libshca does not export: $missing"
done
[ $found -gt 0 ] || skip "no verbs program is installed"

# and every verb that is exported is one of the real libraries, under that version: otherwise nothing binds to it
for real in libibverbs.so.1 libmlx5.so.1; do
	path=$(ldconfig -p 2>/dev/null | awk -v l=$real '$1 == l { print $NF; exit }')
	[ -n "$path" ] || path=$(ls /usr/lib/*/$real 2>/dev/null | head -n 1)
	[ -n "$path" ] || skip "$real was not found"
	symbols "$path" DEF
done | sort -u >"$tmp/real"
extra=$(grep -Ev '^ibv_(exp_|[a-z]*_xrc_)|PRIVATE' "$tmp/exported" | comm -23 - "$tmp/real")
[ -z "$extra" ] || fail "exported, but not by the real library: $extra"
exit 0
