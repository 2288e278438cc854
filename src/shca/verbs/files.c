/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The files that a kernel driver would have for the device: the character device, and the sysfs files that libraries read. None
 * is in a file system; the library that shcarun preloads answers for these paths (interpose/files.c).
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shca/verbs/control.h"

#define DEVICE_CLASS "/sys/class/infiniband/" SHCA_DEVICE_NAME
#define VERBS_CLASS "/sys/class/infiniband_verbs/" SHCA_DEVICE_NAME
#define PORT_CLASS DEVICE_CLASS "/ports/1"
#define PORT_2_CLASS DEVICE_CLASS "/ports/2"
#define CM_CLASS "/sys/class/misc/rdma_cm"
#define MAD_CLASS "/sys/class/infiniband_mad"

struct seen_port {
	uint32_t port;
	struct shca_port_now now;
};

static void port_look(const struct shca_member *m, void *arg)
{
	struct seen_port *seen = arg;
	const struct shca_port *p = shca_port_of(m, seen->port);

	seen->now = (struct shca_port_now){
		.down = atomic_load(&p->down) || shca_device_broken(m), .lid = (uint16_t)atomic_load(&p->lid),
		.sm_lid = (uint16_t)atomic_load(&p->sm_lid), .pkey = (uint16_t)atomic_load(&p->pkey),
		.gid_prefix = atomic_load(&p->gid_prefix),
	};
}

/* The port in the fabric that the process has joined, or would join: tools read the files, and open no device. */
static struct shca_port_now port_now(uint32_t port)
{
	struct seen_port seen = {.port = port};

	return shca_with_fabric(port_look, &seen) ? seen.now : shca_port_now(port);
}

/* The minor number of rdma_cm, which is the kernel's where that has one: librdmacm asks the kernel for it
 * (netlink), and compares. */
static unsigned cm_minor(void)
{
	static _Atomic unsigned known;	/* + 1 */
	unsigned n = atomic_load(&known);
	char text[16] = "";

	if (n)
		return n - 1;
	n = 58;
	/* by the system call: open() of this path comes here */
	int fd = (int)syscall(SYS_openat, AT_FDCWD, CM_CLASS "/dev", O_RDONLY | O_CLOEXEC);
	if (fd >= 0 && (read(fd, text, sizeof(text) - 1) <= 0 || sscanf(text, "10:%u", &n) != 1))
		n = 58;
	if (fd >= 0)
		close(fd);
	atomic_store(&known, n + 1);
	return n;
}

static int cm_dev(uint32_t port, char *text, size_t size)
{
	(void)port;
	return snprintf(text, size, "10:%u\n", cm_minor());
}

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
	return snprintf(text, size, "0x%x\n", shca_is_ethernet() ? 0 : port_now(port).lid);
}

static int sm_lid(uint32_t port, char *text, size_t size)
{
	return snprintf(text, size, "0x%x\n", shca_is_ethernet() ? 0 : port_now(port).sm_lid);
}

static int state(uint32_t port, char *text, size_t size)
{
	return snprintf(text, size, "%s\n", port_now(port).down ? "1: DOWN" : "4: ACTIVE");
}

static int phys_state(uint32_t port, char *text, size_t size)
{
	return snprintf(text, size, "%s\n", port_now(port).down ? "2: Polling" : "5: LinkUp");
}

static int cap_mask(uint32_t port, char *text, size_t size)
{
	(void)port;
	return snprintf(text, size, "0x%08x\n", SHCA_PORT_CAPS);
}

static int pkey(uint32_t port, char *text, size_t size)
{
	return snprintf(text, size, "0x%04x\n", port_now(port).pkey);
}

static int gid(uint32_t port, char *text, size_t size)
{
	uint8_t g[16];
	int n = 0;

	shca_port_gid(port_now(port).gid_prefix, port, g);
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
	{ "/dev/infiniband", SHCA_FILE_PARENT, NULL, NULL },
	{ "/sys/class/infiniband", SHCA_FILE_PARENT, NULL, NULL },
	{ MAD_CLASS, SHCA_FILE_PARENT, NULL, NULL },
	{ MAD_CLASS "/abi_version", SHCA_FILE_TEXT, "5\n", NULL },
	{ CM_CLASS, SHCA_FILE_DIRECTORY, NULL, NULL },
	{ CM_CLASS "/abi_version", SHCA_FILE_TEXT, "4\n", NULL },
	{ CM_CLASS "/dev", SHCA_FILE_TEXT, NULL, cm_dev },
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

static bool row_find(const struct row *rows, size_t n, const char *path, uint32_t port, struct shca_file *file)
{
	for (const struct row *r = rows; r < rows + n; r++) {
		if (!same_path(path, r->path, r->kind == SHCA_FILE_DIRECTORY || r->kind == SHCA_FILE_PARENT))
			continue;
		file->kind = r->kind;
		file->path = r->path;
		file->length = 0;
		if (r->kind == SHCA_FILE_RDMA_CM)
			file->minor = cm_minor();
		if (r->kind == SHCA_FILE_TEXT)
			file->length = (size_t)(r->print ? r->print(port, file->text, sizeof file->text) :
							   snprintf(file->text, sizeof file->text, "%s", r->text));
		return true;
	}
	return false;
}

/* ---- management datagrams -------------------------------------------------------------------------------------- */

/* The files of a port's management datagrams. The numbers behind "umad" are the first ones that the kernel has for no port. */
enum umad_path { UMAD_DEVICE, UMAD_DIRECTORY, UMAD_IBDEV, UMAD_PORT, UMAD_DEV, UMAD_PATHS };
static char umad_paths[SHCA_PORTS_MAX][UMAD_PATHS][64];

static void umad_name_paths(void)
{
	unsigned n = 0;
	char path[64];

	/* by the system call: faccessat() of this process comes here */
	do
		snprintf(path, sizeof(path), MAD_CLASS "/umad%u", n++);
	while (!syscall(SYS_faccessat, AT_FDCWD, path, F_OK));
	for (unsigned i = 0; i < SHCA_PORTS_MAX; i++, n++) {
		snprintf(umad_paths[i][UMAD_DEVICE], sizeof(path), "/dev/infiniband/umad%u", n - 1);
		snprintf(umad_paths[i][UMAD_DIRECTORY], sizeof(path), MAD_CLASS "/umad%u", n - 1);
		snprintf(umad_paths[i][UMAD_IBDEV], sizeof(path), MAD_CLASS "/umad%u/ibdev", n - 1);
		snprintf(umad_paths[i][UMAD_PORT], sizeof(path), MAD_CLASS "/umad%u/port", n - 1);
		snprintf(umad_paths[i][UMAD_DEV], sizeof(path), MAD_CLASS "/umad%u/dev", n - 1);
	}
}

/* Returns the path of a file of the port. */
static const char *umad_path(uint32_t port, enum umad_path which)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, umad_name_paths);
	return umad_paths[port - 1][which];
}

static bool find_umad(const char *path, struct shca_file *file)
{
	if (!files_behind(path, MAD_CLASS) && !files_behind(path, "/dev/infiniband/umad"))
		return false;
	for (uint32_t port = 1; port <= shca_ports(); port++)
		for (enum umad_path which = 0; which < UMAD_PATHS; which++) {
			const char *number = umad_path(port, UMAD_DEVICE) + sizeof("/dev/infiniband/umad") - 1;
			if (!same_path(path, umad_path(port, which), which == UMAD_DIRECTORY))
				continue;
			file->kind = which == UMAD_DEVICE    ? SHCA_FILE_UMAD :
				     which == UMAD_DIRECTORY ? SHCA_FILE_DIRECTORY :
							       SHCA_FILE_TEXT;
			file->path = umad_path(port, which);
			file->port = port;
			file->length = 0;
			if (file->kind == SHCA_FILE_TEXT)
				file->length =
					(size_t)(which == UMAD_IBDEV ?
							 snprintf(file->text, sizeof(file->text), "%s\n", SHCA_DEVICE_NAME) :
						 which == UMAD_PORT ?
							 snprintf(file->text, sizeof(file->text), "%u\n", port) :
							 snprintf(file->text, sizeof(file->text), "231:%s\n", number));
			return true;
		}
	return false;
}

/* ---- looking a file up ------------------------------------------------------------------------------------------ */

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
	return row_find(files, ARRAY_SIZE(files), path, port, file) ||
	       (shca_is_ethernet() && row_find(roce_files, ARRAY_SIZE(roce_files), path, port, file)) ||
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
	if (find_any(path, 1, file) || find_umad(path, file))
		return 0;
	return below(path, DEVICE_CLASS) || below(path, VERBS_CLASS) || below(path, CM_CLASS) ? -ENOENT : -ESRCH;
}

/* ---- names in a directory --------------------------------------------------------------------------------------- */

struct listing {
	const char *directory;
	void (*f)(const char *name, void *arg);
	void *arg;
};

/* Calls f if the path is directly in the directory. */
static void name_if_in(const struct listing *l, const char *path)
{
	const char *rest = files_behind(path, l->directory);

	if (rest && *rest == '/' && rest[1] && !strchr(rest + 1, '/'))
		l->f(rest + 1, l->arg);
}

static void names_in(const struct listing *l, const struct row *rows, size_t n)
{
	for (const struct row *r = rows; r < rows + n; r++)
		if (!is_kernels(r->path))
			name_if_in(l, r->path);
}

void shca_file_names(const char *directory, void (*f)(const char *name, void *arg), void *arg)
{
	struct listing l = {.directory = directory, .f = f, .arg = arg};
	const char *rest = files_behind(directory, PORT_2_CLASS);
	char first[128];
	const char *path;

	if (rest && (!*rest || *rest == '/') && snprintf(first, sizeof(first), PORT_CLASS "%s", rest) < (int)sizeof(first))
		l.directory = first;
	names_in(&l, files, ARRAY_SIZE(files));
	if (shca_is_ethernet())
		names_in(&l, roce_files, ARRAY_SIZE(roce_files));
	for (size_t i = 0; (path = shca_counter_path(i)) != NULL; i++)
		name_if_in(&l, path);
	if (shca_ports() == 2)
		name_if_in(&l, PORT_2_CLASS);
	for (uint32_t port = 1; port <= shca_ports(); port++)
		for (enum umad_path which = 0; which < UMAD_PATHS; which++)
			name_if_in(&l, umad_path(port, which));
}
