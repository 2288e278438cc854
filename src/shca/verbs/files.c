/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The files that a kernel driver would have for the device: the character device, and the sysfs files that libraries read. None
 * is in a file system; the library that shcarun preloads answers for these paths (interpose/files.c).
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "shca/verbs/control.h"

#define DEVICE_CLASS "/sys/class/infiniband/" SHCA_DEVICE_NAME
#define VERBS_CLASS "/sys/class/infiniband_verbs/" SHCA_DEVICE_NAME
#define PORT_CLASS DEVICE_CLASS "/ports/1"
#define PORT_2_CLASS DEVICE_CLASS "/ports/2"
#define CM_CLASS "/sys/class/misc/rdma_cm"

static int node_guid(uint32_t port, char *text, size_t size)
{
	uint64_t g = shca_device_guid();

	(void)port;
	return snprintf(text, size, "%04x:%04x:%04x:%04x\n", (unsigned)(g >> 48), (unsigned)(g >> 32) & 0xffff,
			(unsigned)(g >> 16) & 0xffff, (unsigned)g & 0xffff);
}

static int fw_ver(uint32_t port, char *text, size_t size)
{
	(void)port;
	return snprintf(text, size, "%u.0\n", SHCA_LAYOUT_VERSION);
}

static int hw_rev(uint32_t port, char *text, size_t size)
{
	(void)port;
	return snprintf(text, size, "0x%x\n", SHCA_LAYOUT_VERSION);
}

static int lid(uint32_t port, char *text, size_t size)
{
	return snprintf(text, size, "0x%x\n", shca_is_ethernet() ? 0 : shca_port_now(port).lid);
}

static int sm_lid(uint32_t port, char *text, size_t size)
{
	return snprintf(text, size, "0x%x\n", shca_is_ethernet() ? 0 : shca_port_now(port).sm_lid);
}

static int state(uint32_t port, char *text, size_t size)
{
	return snprintf(text, size, "%s\n", shca_port_now(port).down ? "1: DOWN" : "4: ACTIVE");
}

static int phys_state(uint32_t port, char *text, size_t size)
{
	return snprintf(text, size, "%s\n", shca_port_now(port).down ? "2: Polling" : "5: LinkUp");
}

static int cap_mask(uint32_t port, char *text, size_t size)
{
	(void)port;
	return snprintf(text, size, "0x%08x\n", SHCA_PORT_CAPS);
}

static int pkey(uint32_t port, char *text, size_t size)
{
	return snprintf(text, size, "0x%04x\n", shca_port_now(port).pkey);
}

static int gid(uint32_t port, char *text, size_t size)
{
	uint8_t g[16];
	int n = 0;

	shca_port_gid(shca_port_now(port).gid_prefix, port, g);
	for (int i = 0; i < 16; i += 2)
		n += snprintf(text + n, size - (size_t)n, "%02x%02x%c", g[i], g[i + 1], i < 14 ? ':' : '\n');
	return n;
}

static int link_layer(uint32_t port, char *text, size_t size)
{
	(void)port;
	return snprintf(text, size, "%s\n", shca_is_ethernet() ? "Ethernet" : "InfiniBand");
}

struct row {
	const char *path;
	enum shca_file_kind kind;
	const char *text;
	int (*print)(uint32_t port, char *text, size_t size);
};
static const struct row files[] = {
	{ "/dev/infiniband/" SHCA_DEVICE_NAME, SHCA_FILE_CHARACTER, NULL, NULL },
	{ "/dev/infiniband/rdma_cm", SHCA_FILE_RDMA_CM, NULL, NULL },
	{ CM_CLASS, SHCA_FILE_DIRECTORY, NULL, NULL },
	{ CM_CLASS "/abi_version", SHCA_FILE_TEXT, "4\n", NULL },
	{ CM_CLASS "/dev", SHCA_FILE_TEXT, "10:58\n", NULL },
	{ VERBS_CLASS, SHCA_FILE_DIRECTORY, NULL, NULL },
	{ VERBS_CLASS "/abi_version", SHCA_FILE_TEXT, "1\n", NULL },
	{ VERBS_CLASS "/ibdev", SHCA_FILE_TEXT, SHCA_DEVICE_NAME "\n", NULL },
	{ DEVICE_CLASS, SHCA_FILE_DIRECTORY, NULL, NULL },
	{ DEVICE_CLASS "/node_type", SHCA_FILE_TEXT, "1: CA\n", NULL },
	{ DEVICE_CLASS "/node_desc", SHCA_FILE_TEXT, SHCA_DEVICE_NAME "\n", NULL },
	{ DEVICE_CLASS "/node_guid", SHCA_FILE_TEXT, NULL, node_guid },
	{ DEVICE_CLASS "/sys_image_guid", SHCA_FILE_TEXT, NULL, node_guid },
	{ DEVICE_CLASS "/fw_ver", SHCA_FILE_TEXT, NULL, fw_ver },
	{ DEVICE_CLASS "/hw_rev", SHCA_FILE_TEXT, NULL, hw_rev },
	{ DEVICE_CLASS "/ports", SHCA_FILE_DIRECTORY, NULL, NULL },
	{ PORT_CLASS, SHCA_FILE_DIRECTORY, NULL, NULL },
	{ PORT_CLASS "/state", SHCA_FILE_TEXT, NULL, state },
	{ PORT_CLASS "/phys_state", SHCA_FILE_TEXT, NULL, phys_state },
	{ PORT_CLASS "/link_layer", SHCA_FILE_TEXT, NULL, link_layer },
	{ PORT_CLASS "/rate", SHCA_FILE_TEXT, "100 Gb/sec (4X EDR)\n", NULL },
	{ PORT_CLASS "/lid", SHCA_FILE_TEXT, NULL, lid },
	{ PORT_CLASS "/lid_mask_count", SHCA_FILE_TEXT, "0\n", NULL },
	{ PORT_CLASS "/sm_lid", SHCA_FILE_TEXT, NULL, sm_lid },
	{ PORT_CLASS "/sm_sl", SHCA_FILE_TEXT, "0\n", NULL },
	{ PORT_CLASS "/cap_mask", SHCA_FILE_TEXT, NULL, cap_mask },
	{ PORT_CLASS "/gids", SHCA_FILE_DIRECTORY, NULL, NULL },
	{ PORT_CLASS "/gids/0", SHCA_FILE_TEXT, NULL, gid },
	{ PORT_CLASS "/gid_attrs", SHCA_FILE_DIRECTORY, NULL, NULL },
	{ PORT_CLASS "/gid_attrs/types", SHCA_FILE_DIRECTORY, NULL, NULL },
	{ PORT_CLASS "/gid_attrs/types/0", SHCA_FILE_TEXT, "IB/RoCE v1\n", NULL },
	{ PORT_CLASS "/pkeys", SHCA_FILE_DIRECTORY, NULL, NULL },
	{ PORT_CLASS "/pkeys/0", SHCA_FILE_TEXT, NULL, pkey },
	{ PORT_CLASS "/counters", SHCA_FILE_DIRECTORY, NULL, NULL },
	{ PORT_CLASS "/hw_counters", SHCA_FILE_DIRECTORY, NULL, NULL },
};
/* With SHCA_LINK=ethernet these too. */
static const struct row roce_files[] = {
	{ PORT_CLASS "/gids/1", SHCA_FILE_TEXT, NULL, gid },
	{ PORT_CLASS "/gid_attrs/types/1", SHCA_FILE_TEXT, "RoCE v2\n", NULL },
	{ PORT_CLASS "/gid_attrs/ndevs", SHCA_FILE_DIRECTORY, NULL, NULL },
	{ PORT_CLASS "/gid_attrs/ndevs/0", SHCA_FILE_TEXT, SHCA_NETDEV "\n", NULL },
	{ PORT_CLASS "/gid_attrs/ndevs/1", SHCA_FILE_TEXT, SHCA_NETDEV "\n", NULL },
};

/* Returns the part of `asked` behind `path`; NULL: `asked` does not begin with `path`. Consecutive slashes count as one. */
static const char *files_behind(const char *asked, const char *path)
{
	for (; *path; asked++) {
		if (*asked == '/' && asked[1] == '/')
			continue;
		if (*asked != *path++)
			return NULL;
	}
	return asked;
}

static bool same_path(const char *asked, const char *path, bool directory)
{
	const char *rest = files_behind(asked, path);

	while (rest && directory && *rest == '/')
		rest++;
	return rest && !*rest;
}

/* A path below the device's directories that has no file here is missing, even if the real file system has it. */
static bool below(const char *asked, const char *dir)
{
	const char *rest = files_behind(asked, dir);

	return rest && *rest == '/';
}

/* A file of RDMA CM, which the program may want of the kernel. */
static bool is_kernels(const char *path)
{
	return strstr(path, "/rdma_cm") && !shca_env_bool("SHCA_CM");
}

static bool find_in(const struct row *rows, size_t n, const char *path, uint32_t port, struct shca_file *file)
{
	for (const struct row *r = rows; r < rows + n; r++) {
		if (!same_path(path, r->path, r->kind == SHCA_FILE_DIRECTORY))
			continue;
		file->kind = r->kind;
		file->path = r->path;
		file->length = 0;
		if (r->kind == SHCA_FILE_TEXT)
			file->length = (size_t)(r->print ? r->print(port, file->text, sizeof file->text) :
							   snprintf(file->text, sizeof file->text, "%s", r->text));
		return true;
	}
	return false;
}

/* A counter's file: they are a table of their own (counters.c). Returns false if there is none of that name. */
static bool find_counter(const char *path, uint32_t port, struct shca_file *file)
{
	size_t i = 0;

	if (!below(path, PORT_CLASS))
		return false;
	while ((file->path = shca_counter_path(i)) && !same_path(path, file->path, false))
		i++;
	if (!file->path)
		return false;
	file->kind = SHCA_FILE_TEXT;
	file->length = (size_t)shca_counter_print(i, port, file->text, sizeof(file->text));
	return true;
}

/* The paths of the second port's files: the device number of each file is its path's address. */
static char second[ARRAY_SIZE(files) + ARRAY_SIZE(roce_files) + SHCA_COUNTERS_MAX][128];

/* Returns the path of port 2's file in place of that of port 1's. */
static const char *path_of_second(const char *path)
{
	static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	char name[sizeof(second[0])];
	size_t i;

	snprintf(name, sizeof(name), PORT_2_CLASS "%s", path + sizeof(PORT_CLASS) - 1);
	pthread_mutex_lock(&mutex);
	for (i = 0; i < ARRAY_SIZE(second) && second[i][0] && strcmp(second[i], name); i++)
		;
	if (i < ARRAY_SIZE(second))
		strcpy(second[i], name);
	pthread_mutex_unlock(&mutex);
	return i < ARRAY_SIZE(second) ? second[i] : path;
}

static bool find_any(const char *path, uint32_t port, struct shca_file *file)
{
	return find_in(files, ARRAY_SIZE(files), path, port, file) ||
	       (shca_is_ethernet() && find_in(roce_files, ARRAY_SIZE(roce_files), path, port, file)) ||
	       find_counter(path, port, file);
}

int shca_file_find(const char *path, struct shca_file *file)
{
	const char *rest = shca_ports() == 2 ? files_behind(path, PORT_2_CLASS) : NULL;
	char first[256];

	if (is_kernels(path))
		return -ESRCH;
	if (rest && (!*rest || *rest == '/') && snprintf(first, sizeof(first), PORT_CLASS "%s", rest) < (int)sizeof(first)) {
		/* the same files */
		if (!find_any(first, 2, file))
			return -ENOENT;
		file->path = path_of_second(file->path);
		return 0;
	}
	if (find_any(path, 1, file))
		return 0;
	return below(path, DEVICE_CLASS) || below(path, VERBS_CLASS) || below(path, CM_CLASS) ? -ENOENT : -ESRCH;
}
