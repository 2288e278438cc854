# SPDX-License-Identifier: BSD-3-Clause
# Guests with Linux's Soft-RoCE (rdma_rxe), by qemu's software emulation. Sourced by tests/vm/run.
#
# The guest's root is this machine's, read-only by 9p; /tmp, /run and /dev/shm are the guest's own, the build tree and the
# sources are mounted again over them, in case they lie in /tmp. $vm/out is shared by all guests and this machine, for jobs, their
# output and their exit statuses: coherent, since no guest caches the folder.
# The kernel is Debian's, and need not be installed: the package is fetched once and the parts that a guest needs are kept in
# ${HEDDLE_VM_CACHE:-~/.cache/heddle-vm}.

vm_modules="virtio_pci virtio_net 9pnet_virtio 9p crc32_generic rdma_rxe rdma_ucm sch_netem"
vm_modules_nfs="nfsd nfsv4"	# of jobs with "# modules: nfs"
PATH=$PATH:/usr/sbin:/sbin

vm_skip() { echo "skipped: $*"; exit 77; }
vm_fail() { echo "FAILED: $*"; exit 1; }

# Prints the tools that this machine lacks for guests, in one line; nothing if guests can run.
vm_lacks() {
	[ "$(uname -m)" = x86_64 ] || { echo "guests are x86_64, this machine is $(uname -m)"; return; }
	for p in qemu-system-x86_64:qemu-system-x86 cpio:cpio modprobe:kmod xz:xz-utils ip:iproute2 dpkg-deb:dpkg apt-get:apt; do
		command -v ${p%:*} >/dev/null || { echo "${p%:*} (Debian: ${p#*:}) is not installed"; return; }
	done
	[ -x /bin/busybox ] && ! ldd /bin/busybox >/dev/null 2>&1 || { echo "/bin/busybox is not static (Debian: busybox-static)"; return; }
}

# An unsigned little-endian number of $2 bytes at offset $1 of the kernel's image $3
vm_number() { od -An -tu"$2" -j$(($1)) -N"$2" "$3" | tr -d ' '; }

# The ELF image inside of the bzImage $1, to $2: booted directly (PVH), which saves seconds of emulated decompression.
vm_unpack_kernel() {
	# Linux's Documentation/arch/x86/boot: setup_sects, payload_offset, payload_length
	start=$((($(vm_number 0x1f1 1 "$1") + 1) * 512 + $(vm_number 0x248 4 "$1")))
	tail -c +$((start + 1)) "$1" | head -c "$(vm_number 0x24c 4 "$1")" | xz -dcq --single-stream >"$2" 2>/dev/null
	[ "$(head -c 4 "$2" | tail -c 3)" = ELF ]
}

# Copies the modules named and those that they need from $vm_work/root, and writes the order in which they are inserted to the file $1.
vm_take_modules() {
	order=$1
	shift
	: >"$order"
	for m; do
		files=$(modprobe -d "$vm_work/root" -S "$version" --show-depends "$m") || vm_fail "$package has no module $m"
		for f in $(echo "$files" | sed -n 's/^insmod \([^ ]*\).*/\1/p'); do
			b=$(basename "$f")
			[ -e "$vm_work/kernel/$b" ] || { cp "$f" "$vm_work/kernel/" && echo "$b" >>"$order"; } ||
				vm_fail "$vm_work/kernel/$b cannot be written"
		done
	done
}

# Sets vm_kernel, the folder of the kernel: vmlinux and modules, with `order`, the order in which they are inserted (`order.nfs`: behind those). vm_work is a folder
# that the caller removes at its end, after a failure, too.
vm_find_kernel() {
	cache=${HEDDLE_VM_CACHE:-${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/heddle-vm}
	package=$(apt-cache depends linux-image-amd64 2>/dev/null | sed -n 's/.*Depends: \(linux-image-[^ ]*\)$/\1/p' | head -n 1)
	if [ -z "$package" ]; then
		apt-get update -qq >/dev/null 2>&1
		package=$(apt-cache depends linux-image-amd64 2>/dev/null | sed -n 's/.*Depends: \(linux-image-[^ ]*\)$/\1/p' | head -n 1)
	fi
	[ -n "$package" ] || vm_skip "no Debian package of a kernel is known here (apt-cache depends linux-image-amd64)"
	# with other lists of modules another folder
	vm_kernel=$cache/$package-$(echo "$vm_modules $vm_modules_nfs" | cksum | cut -d" " -f1)
	[ -f "$vm_kernel/order.nfs" ] && return
	mkdir -p "$cache" 2>/dev/null && vm_work=$(mktemp -d "$cache/new.XXXXXX" 2>/dev/null) ||
		vm_skip "$cache, where the kernel would be kept, cannot be written (HEDDLE_VM_CACHE names another folder)"
	(cd "$vm_work" && apt-get download -qq "$package") >/dev/null 2>&1 || vm_skip "Debian's package $package cannot be fetched"
	dpkg-deb -x "$vm_work"/*.deb "$vm_work/root" && version=$(ls "$vm_work/root/lib/modules") && depmod -b "$vm_work/root" "$version" &&
		mkdir "$vm_work/kernel" && vm_unpack_kernel "$vm_work/root/boot/vmlinuz-$version" "$vm_work/kernel/vmlinux" ||
		vm_fail "$package is not unpacked: its kernel is not a bzImage with an xz payload, or the disk is full"
	# shellcheck disable=SC2086
	vm_take_modules "$vm_work/order" $vm_modules
	# shellcheck disable=SC2086
	vm_take_modules "$vm_work/order.nfs" $vm_modules_nfs
	mv "$vm_work/order" "$vm_work/order.nfs" "$vm_work/kernel/" || exit 1
	# the first run wins; the folder of another run that did the same meanwhile is as good
	[ -f "$vm_kernel/order.nfs" ] || { rm -rf "$vm_kernel" && mv -T "$vm_work/kernel" "$vm_kernel"; } 2>/dev/null
	rm -rf "$vm_work"
	vm_work=
	[ -f "$vm_kernel/order.nfs" ] || vm_fail "$vm_kernel cannot be written"
}

# Makes the initial file system of all guests: static busybox, the modules, init.
vm_make_initrd() {
	mkdir -p "$vm/initrd/bin" "$vm/initrd/mod" "$vm/initrd/dev" "$vm/initrd/proc" "$vm/initrd/sys" "$vm/initrd/root" &&
		cp /bin/busybox "$vm/initrd/bin/" && ln -s busybox "$vm/initrd/bin/sh" && cp "$vm_kernel"/*.ko "$vm_kernel"/order* "$vm/initrd/mod/" &&
		install -m 755 "$vm_sources/tests/vm/init" "$vm/initrd/init" &&
		(cd "$vm/initrd" && find . | cpio -o -H newc --quiet -R 0:0 | gzip -1) >"$vm/initrd.gz" || exit 1
}

# Boots guest $1 of $2 with job $3 (a script, run by sh), for at most $4 seconds, with the modules of order.$5 if it is given. Its console is $vm/console.$1, its exit status, when it
# has one, $vm/out/status.$1. Two guests share a wire: the first one listens, the second one connects.
vm_boot() {
	net=hubport,id=n0,hubid=0
	if [ "$2" != 1 ]; then
		net="stream,id=n0,server=$([ "$1" = 1 ] && echo on || echo off),addr.type=unix,addr.path=$vm/wire"
		[ "$1" = 1 ] || for _ in $(seq 200); do [ -S "$vm/wire" ] && break; sleep 0.05; done
	fi
	share() { echo "-fsdev local,id=$1,path=$2,security_model=none,$3 -device virtio-9p-pci,fsdev=$1,mount_tag=$1"; }
	# shellcheck disable=SC2046
	exec timeout -k 5 "$4" qemu-system-x86_64 -accel tcg,thread=multi -cpu max -smp $(($2 == 1 ? 2 : 1)) -m "${HEDDLE_VM_MEMORY:-1536}" -M q35 \
		-nodefaults -display none -serial stdio -no-reboot -kernel "$vm_kernel/vmlinux" -initrd "$vm/initrd.gz" \
		-append "console=ttyS0 quiet panic=-1 no_timer_check nowatchdog mitigations=off guest=$1 guests=$2 build=$vm_build sources=$vm_sources job=$3${5:+ modules=$5}" \
		$(share host / readonly=on,multidevs=remap) $(share build "$vm_build" readonly=on) $(share sources "$vm_sources" readonly=on) \
		$(share out "$vm/out" readonly=off) -netdev "$net" -device "virtio-net-pci,netdev=n0,romfile=,mac=52:54:00:00:00:0$1" \
		</dev/null >"$vm/console.$1" 2>&1
}
