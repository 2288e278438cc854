/* SPDX-License-Identifier: BSD-3-Clause */
/* The host's identity on the wire, the same whichever process or fabric asks. */
#include <endian.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/fnv.h"
#include "shca/engine/engine.h"

uint64_t shca_device_guid(void)
{
	static _Atomic uint64_t guid;
	uint64_t g = atomic_load_explicit(&guid, memory_order_relaxed);

	if (g)
		return g;
	char text[256] = "";
	int fd = open("/etc/machine-id", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
	if (fd >= 0)
		close(fd);
	if (n <= 0 && gethostname(text, sizeof text - 1))
		text[0] = 0;
	/* a hash, because the machine's identity must not be disclosed */
	uint64_t h = fnv1a_64(FNV1A_64, text, strcspn(text, "\n"));
	/* a locally administered EUI-64 */
	g = 0x0253480000000000ull | (h & 0xffffffffffull);
	atomic_store_explicit(&guid, g, memory_order_relaxed);
	return g;
}

void shca_port_gid(uint64_t prefix, uint32_t port, uint8_t gid[16])
{
	/* of port 1 the device's */
	const uint64_t be[2] = {htobe64(prefix), htobe64(shca_device_guid() ^ (port == 2))};

	memcpy(gid, be, sizeof(be));
}

uint16_t shca_group_lid(const uint8_t gid[16])
{
	/* 0xffff is the permissive LID */
	return (uint16_t)(SHCA_MULTICAST_LID + fnv1a_32(FNV1A_32, gid, 16) % 0x3ffe);
}

/* The number of the last port that the fabric has an address for. */
static uint32_t address_ports(const struct shca_member *m)
{
	return atomic_load(&m->hdr->ports.two) ? 2 : 1;
}

uint32_t shca_port_of_gid(const struct shca_member *m, const uint8_t gid[16])
{
	uint8_t of_port[16];

	for (uint32_t port = 1; port <= address_ports(m); port++) {
		shca_gid_of(m, port, of_port);
		if (!memcmp(of_port, gid, sizeof(of_port)))
			return port;
	}
	return 0;
}

uint32_t shca_port_of_lid(const struct shca_member *m, uint16_t lid)
{
	for (uint32_t port = 1; port <= address_ports(m); port++)
		if (lid == shca_lid(m, port))
			return port;
	return 0;
}
