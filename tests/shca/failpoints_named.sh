#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Every failpoint of the software HCA stands in a table of a test with a process that dies there. Run in the build directory.
set -u
here=${srcdir:-..}
tables="failpoints.c failpoints_kinds.c control_path_death.c wakeups.c datagram_death.c proxy_mailbox_death.c common_qp_death.c window_death.c path_death.c"

# Points at which no test lets a process die, and the reason.
excepted()
{
	case $1 in
	given) echo "a receive goes to the flusher only behind a death: it takes two in one request" ;;
	returned) echo "a receive goes back only behind a death, or where its message's memory is not there any more" ;;
	rnr-turned) echo "two queues have to wait at one list: interleavings stops a thread there, single_step dies around it" ;;
	dc-violation) echo "slot_reuse_death kills a process there" ;;
	first-message | last-told) echo "async_event_death kills a process there" ;;
	share-waits) echo "what others have begun is waited for; copy_share_death kills one of those there" ;;
	share-offered) echo "nothing is copied yet; copy_share_death holds the reader there" ;;
	behind-others) echo "the poster has changed nothing yet; unfinished_word fails its queue there" ;;
	timer-noted) echo "the helper thread's own list: nothing was changed that others see" ;;
	survivor) echo "whoever tells has changed nothing yet; slot_reuse_death holds one there" ;;
	mail-asks) echo "the requester has only not asked yet; proxy_on_demand holds it there" ;;
	mail-cancel) echo "whoever cancels has changed nothing yet" ;;
	esac
}

names=$(cat "$here"/src/shca/*/*.[ch] "$here"/src/shca/*/*/*.[ch] | tr '\n\t' '  ' | grep -oE 'SHCA_FAILPOINT\([^;]*;' | grep -v '(thr, name, qp, op)' |
	grep -oE '"[a-z-]+"' | tr -d '"' | sort -u)
[ "$(echo "$names" | wc -l)" -gt 60 ] || { echo "FAIL: the failpoints of src/shca are not found"; exit 1; }
status=0
for name in $names; do
	found=
	for table in $tables; do
		# as a separate point, or as the place of another one
		grep -qE "\{\"$name\",|\{\"[a-z-]+\", \"$name\"," "$here/tests/shca/$table" && found=$table
	done
	why=$(excepted "$name")
	if [ -z "$found$why" ]; then
		echo "FAIL: nobody dies at \"$name\": it stands in no table of: $tables"
		status=1
	elif [ -n "$found" ] && [ -n "$why" ]; then
		echo "FAIL: \"$name\" stands in $found, and is excepted as well"
		status=1
	fi
done
exit $status
