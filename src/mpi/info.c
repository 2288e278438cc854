/* SPDX-License-Identifier: BSD-3-Clause */
/* Info objects (MPI-5.0 chapter 10). Every function works also before MPI_Init and after MPI_Finalize. */
#include "mpi/info.h"
#include "mpi/leaks.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

struct pair {
	char *key, *value;
};

struct hdl_info {
	struct hdl_object obj;
	int n, capacity;
	struct pair *pairs;
};

/* The memory stays in the pool, since handles are valid also when MPI is not initialized. */
struct hdl_pool hdl_infos = HDL_POOL(struct hdl_info, 16);

/* The object of MPI_INFO_ENV. Any thread may ask for it first; it is made anew once there is a job to describe. The former
 * object stays, since another thread may be reading it. */
static struct hdl_info *env, *env_before;
static pthread_mutex_t env_lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- the object ---------------------------------------------------------------------------------------- */

struct hdl_info *hdl_info_new(void)
{
	struct hdl_info *info = hdl_pool_take(&hdl_infos);

	if (info)
		info->obj = (struct hdl_object){ HDL_MAGIC_INFO, 1 };
	return info;
}

void hdl_info_free(struct hdl_info *info)
{
	if (!info)
		return;
	for (int i = 0; i < info->n; i++) {
		free(info->pairs[i].key);
		free(info->pairs[i].value);
	}
	free(info->pairs);
	hdl_pool_put(&hdl_infos, info);
}

static struct pair *info_find(const struct hdl_info *info, const char *key)
{
	for (int i = 0; i < info->n; i++)
		if (!strcmp(info->pairs[i].key, key))
			return &info->pairs[i];
	return NULL;
}

static bool info_grow(struct hdl_info *info)
{
	int capacity = info->capacity ? 2 * info->capacity : 8;
	struct pair *pairs = realloc(info->pairs, (size_t)capacity * sizeof(*pairs));

	if (!pairs)
		return false;
	info->pairs = pairs;
	info->capacity = capacity;
	return true;
}

bool hdl_info_set(struct hdl_info *info, const char *key, const char *value)
{
	struct pair *p = info_find(info, key), new = { NULL, strdup(value) };

	if (!new.value)
		return false;
	if (p) {
		free(p->value);
		p->value = new.value;
		return true;
	}
	new.key = strdup(key);
	if (!new.key || (info->n == info->capacity && !info_grow(info))) {
		free(new.key);
		free(new.value);
		return false;
	}
	info->pairs[info->n++] = new;
	return true;
}

struct hdl_info *hdl_info_dup(const struct hdl_info *info)
{
	struct hdl_info *copy = hdl_info_new();

	for (int i = 0; copy && i < info->n; i++)
		if (!hdl_info_set(copy, info->pairs[i].key, info->pairs[i].value)) {
			hdl_info_free(copy);
			copy = NULL;
		}
	return copy;
}

const char *hdl_info_value(const struct hdl_info *info, const char *key)
{
	const struct pair *p = info ? info_find(info, key) : NULL;

	return p ? p->value : NULL;
}

bool hdl_info_pair(const struct hdl_info *info, int n, const char **key, const char **value)
{
	if (!info || n < 0 || n >= info->n)
		return false;
	*key = info->pairs[n].key;
	*value = info->pairs[n].value;
	return true;
}

/* ---- the environment (section 11.2.1) ------------------------------------------------------------------- */

/* Sets a pair, with the value cut at the standard's limit. */
static bool set_cut(struct hdl_info *info, const char *key, const char *value, size_t len)
{
	char text[MPI_MAX_INFO_VAL];

	if (len >= sizeof(text))
		len = sizeof(text) - 1;
	memcpy(text, value, len);
	text[len] = 0;
	return hdl_info_set(info, key, text);
}

/* Sets the program's name and its arguments, separated by blanks; without arguments those that the system keeps. */
static bool set_command(struct hdl_info *info, int argc, char *const argv[])
{
	char line[MPI_MAX_INFO_KEY + 2 * MPI_MAX_INFO_VAL];
	size_t n = 0, first;
	FILE *f;

	if (argc > 0 && argv && argv[0]) {
		for (int i = 0; i < argc && argv[i]; i++)
			for (const char *c = argv[i]; n < sizeof(line); c++) {
				line[n++] = *c;
				if (!*c)
					break;
			}
	} else if ((f = fopen("/proc/self/cmdline", "re"))) {
		n = fread(line, 1, sizeof(line), f);
		fclose(f);
	}
	if (!n)
		return true;
	line[n - 1] = 0;
	first = strlen(line);
	for (size_t i = first + 1; i + 1 < n; i++)
		if (!line[i])
			line[i] = ' ';
	return set_cut(info, "command", line, first) &&
	       (first + 1 >= n || set_cut(info, "argv", line + first + 1, strlen(line + first + 1)));
}

/* Sets maxprocs, of the process's own program if the job has several. Before MPI_Init it is the launcher's environment
 * variable. */
static bool set_maxprocs(struct hdl_info *info)
{
	int size = hdl_rt_program_size();
	char text[16];

	snprintf(text, sizeof(text), "%d", size);
	return size < 1 || hdl_info_set(info, "maxprocs", text);
}

/* Sets the initial error handler as the user asked for it. */
static bool info_set_errhandler(struct hdl_info *info)
{
	const char *name = getenv("HEDDLE_INITIAL_ERRHANDLER");

	return !name || !*name || set_cut(info, "mpi_initial_errhandler", name, strlen(name));
}

static struct hdl_info *info_make_env(int argc, char *const argv[])
{
	struct hdl_info *info = hdl_info_new();
	char wdir[PATH_MAX];
	struct utsname u;
	bool ok = info && set_command(info, argc, argv) && set_maxprocs(info) && info_set_errhandler(info);

	if (ok && !uname(&u))
		ok = set_cut(info, "host", u.nodename, strlen(u.nodename)) &&
		     set_cut(info, "arch", u.machine, strlen(u.machine));
	if (ok && getcwd(wdir, sizeof(wdir)) && strlen(wdir) < MPI_MAX_INFO_VAL)
		ok = hdl_info_set(info, "wdir", wdir);
	if (!ok) {
		hdl_info_free(info);
		info = NULL;
	}
	return info;
}

/* ---- leaks --------------------------------------------------------------------------------------------- */

static void info_leaked(void *object, void *arg)
{
	const struct hdl_info *info = object;

	(void)arg;
	if (info == env || info == env_before)
		return;
	hdl_leak("info objects not freed", "%d key%s%s%.64s", info->n, info->n == 1 ? "" : "s", info->n ? ", the first " : "",
		 info->n ? info->pairs[0].key : "");
}

void hdl_info_leaks(void)
{
	hdl_pool_each(&hdl_infos, info_leaked, NULL);
}

/* ---- arguments ------------------------------------------------------------------------------------------ */

static struct hdl_info *get_env(void)
{
	struct hdl_info *made;

	pthread_mutex_lock(&env_lock);
	if (!env || (hdl_mpi_state_now() == HDL_ACTIVE && !info_find(env, "maxprocs"))) {
		made = info_make_env(0, NULL);
		if (made) {
			env_before = env;
			env = made;
		}
	}
	made = env;
	pthread_mutex_unlock(&env_lock);
	return made;
}

/* Returns the object behind a handle, or NULL. */
static struct hdl_info *info_get(MPI_Info handle)
{
	if (handle == MPI_INFO_ENV)
		return get_env();
	return hdl_pool_find(&hdl_infos, handle, HDL_MAGIC_INFO, sizeof(struct hdl_info));
}

static cold int bad_info(struct hdl_comm *comm, const char *call, MPI_Info handle)
{
	if (handle == MPI_INFO_NULL)
		return hdl_raise(comm, MPI_ERR_INFO, call, "invalid info: MPI_INFO_NULL");
	if (handle == MPI_INFO_ENV)
		return hdl_raise(comm, MPI_ERR_INFO, call, "invalid info: MPI_INFO_ENV can only be read");
	return hdl_raise(comm, MPI_ERR_INFO, call, "invalid info: handle %p is none, or was freed", (void *)handle);
}

/* The same for functions that change the object; NULL for MPI_INFO_ENV. */
static struct hdl_info *get_own(MPI_Info handle)
{
	return handle == MPI_INFO_ENV ? NULL : info_get(handle);
}

static cold int info_no_memory(const char *call)
{
	return hdl_raise(NULL, MPI_ERR_NO_MEM, call, "out of memory");
}

static int info_check_key(const char *call, const char *key)
{
	size_t len;

	if (!key)
		return hdl_null_arg(NULL, call, "key");
	len = strlen(key);
	if (!len)
		return hdl_raise(NULL, MPI_ERR_INFO_KEY, call, "invalid key: it is empty");
	if (len >= MPI_MAX_INFO_KEY)
		return hdl_raise(NULL, MPI_ERR_INFO_KEY, call, "invalid key of %zu characters (%.32s...): at most %d are allowed",
				 len, key, MPI_MAX_INFO_KEY - 1);
	return MPI_SUCCESS;
}

bool hdl_info_find(MPI_Info handle, const struct hdl_info **info)
{
	*info = handle == MPI_INFO_NULL ? NULL : info_get(handle);
	return *info || handle == MPI_INFO_NULL;
}

int hdl_info_arg(struct hdl_comm *comm, const char *call, MPI_Info handle, const struct hdl_info **info)
{
	return hdl_info_find(handle, info) ? MPI_SUCCESS : bad_info(comm, call, handle);
}

int hdl_info_alignment(const struct hdl_info *info, long *align)
{
	static const char key[] = "mpi_minimum_memory_alignment";
	const char *value = hdl_info_value(info, key);
	char *end;

	*align = 1;
	if (!value)
		return MPI_SUCCESS;
	errno = 0;
	*align = strtol(value, &end, 10);
	if (!errno && end != value && !*end && *align >= 1 && !(*align & (*align - 1)))
		return MPI_SUCCESS;
	hdl_reason_set("invalid value \"%s\" of info key %s: it must be a power of two", value, key);
	return MPI_ERR_INFO_VALUE;
}

/* ---- the functions of the standard --------------------------------------------------------------------- */

static int info_give(const char *call, struct hdl_info *new, MPI_Info *handle)
{
	if (!new)
		return info_no_memory(call);
	*handle = hdl_info_handle(new);
	return MPI_SUCCESS;
}

int PMPI_Info_create(MPI_Info *info)
{
	HDL_LOCKED;
	HDL_GIVES(info);
	static const char call[] = "MPI_Info_create";

	if (!info)
		return hdl_null_arg(NULL, call, "info");
	return info_give(call, hdl_info_new(), info);
}
HDL_PROFILED(Info_create);

int PMPI_Info_create_env(int argc, char *argv[], MPI_Info *info)
{
	HDL_LOCKED;
	HDL_GIVES(info);
	static const char call[] = "MPI_Info_create_env";

	if (argc < 0)
		return hdl_raise(NULL, MPI_ERR_ARG, call, "invalid argc %d: it must not be negative", argc);
	if (argc && !argv)
		return hdl_null_arg(NULL, call, "argv");
	if (!info)
		return hdl_null_arg(NULL, call, "info");
	return info_give(call, info_make_env(argc, argv), info);
}
HDL_PROFILED(Info_create_env);

int PMPI_Info_dup(MPI_Info info, MPI_Info *newinfo)
{
	HDL_LOCKED;
	HDL_GIVES(newinfo);
	static const char call[] = "MPI_Info_dup";
	struct hdl_info *i = info_get(info);

	if (!i)
		return bad_info(NULL, call, info);
	if (!newinfo)
		return hdl_null_arg(NULL, call, "newinfo");
	return info_give(call, hdl_info_dup(i), newinfo);
}
HDL_PROFILED(Info_dup);

int PMPI_Info_free(MPI_Info *info)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Info_free";
	struct hdl_info *i;

	if (!info)
		return hdl_null_arg(NULL, call, "info");
	i = get_own(*info);
	if (!i)
		return bad_info(NULL, call, *info);
	hdl_info_free(i);
	*info = MPI_INFO_NULL;
	return MPI_SUCCESS;
}
HDL_PROFILED(Info_free);

int PMPI_Info_set(MPI_Info info, const char *key, const char *value)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Info_set";
	struct hdl_info *i = get_own(info);
	int rc = i ? info_check_key(call, key) : bad_info(NULL, call, info);

	if (rc)
		return rc;
	if (!value)
		return hdl_null_arg(NULL, call, "value");
	if (strlen(value) >= MPI_MAX_INFO_VAL)
		return hdl_raise(NULL, MPI_ERR_INFO_VALUE, call,
				 "invalid value of %zu characters for key %s: at most %d are allowed", strlen(value), key,
				 MPI_MAX_INFO_VAL - 1);
	return hdl_info_set(i, key, value) ? MPI_SUCCESS : info_no_memory(call);
}
HDL_PROFILED(Info_set);

int PMPI_Info_delete(MPI_Info info, const char *key)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Info_delete";
	struct hdl_info *i = get_own(info);
	struct pair *p;
	int rc = i ? info_check_key(call, key) : bad_info(NULL, call, info);

	if (rc)
		return rc;
	p = info_find(i, key);
	if (!p)
		return hdl_raise(NULL, MPI_ERR_INFO_NOKEY, call, "invalid key %s: it is not in the object", key);
	free(p->key);
	free(p->value);
	memmove(p, p + 1, (size_t)(i->pairs + i->n - (p + 1)) * sizeof(*p));
	i->n--;
	return MPI_SUCCESS;
}
HDL_PROFILED(Info_delete);

/* Checks the arguments of the four functions that read a value. *value is NULL if there is none. */
static int info_look_up(const char *call, MPI_Info info, const char *key, const int *flag, const char **value)
{
	struct hdl_info *i = info_get(info);
	int rc = i ? info_check_key(call, key) : bad_info(NULL, call, info);

	if (rc)
		return rc;
	if (!flag)
		return hdl_null_arg(NULL, call, "flag");
	*value = hdl_info_value(i, key);
	return MPI_SUCCESS;
}

int PMPI_Info_get_string(MPI_Info info, const char *key, int *buflen, char *value, int *flag)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Info_get_string";
	const char *found;
	int rc = info_look_up(call, info, key, flag, &found);

	if (rc)
		return rc;
	if (!buflen)
		return hdl_null_arg(NULL, call, "buflen");
	if (*buflen < 0)
		return hdl_raise(NULL, MPI_ERR_ARG, call, "invalid buflen %d: it must not be negative", *buflen);
	if (*buflen && !value)
		return hdl_null_arg(NULL, call, "value");
	*flag = found != NULL;
	if (found) {
		if (*buflen)
			snprintf(value, (size_t)*buflen, "%s", found);
		*buflen = (int)strlen(found) + 1;
	}
	return MPI_SUCCESS;
}
HDL_PROFILED(Info_get_string);

/* Deprecated: valuelen does not count the terminating NUL, which is written all the same. */
int PMPI_Info_get(MPI_Info info, const char *key, int valuelen, char *value, int *flag)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Info_get";
	const char *found;
	int rc = info_look_up(call, info, key, flag, &found);

	if (rc)
		return rc;
	if (valuelen < 0)
		return hdl_raise(NULL, MPI_ERR_ARG, call, "invalid valuelen %d: it must not be negative", valuelen);
	if (!value)
		return hdl_null_arg(NULL, call, "value");
	*flag = found != NULL;
	if (found)
		snprintf(value, (size_t)valuelen + 1, "%s", found);
	return MPI_SUCCESS;
}
HDL_PROFILED(Info_get);

int PMPI_Info_get_valuelen(MPI_Info info, const char *key, int *valuelen, int *flag)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Info_get_valuelen";
	const char *found;
	int rc = info_look_up(call, info, key, flag, &found);

	if (rc)
		return rc;
	if (!valuelen)
		return hdl_null_arg(NULL, call, "valuelen");
	*flag = found != NULL;
	if (found)
		*valuelen = (int)strlen(found);
	return MPI_SUCCESS;
}
HDL_PROFILED(Info_get_valuelen);

int PMPI_Info_get_nkeys(MPI_Info info, int *nkeys)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Info_get_nkeys";
	struct hdl_info *i = info_get(info);

	if (!i)
		return bad_info(NULL, call, info);
	if (!nkeys)
		return hdl_null_arg(NULL, call, "nkeys");
	*nkeys = i->n;
	return MPI_SUCCESS;
}
HDL_PROFILED(Info_get_nkeys);

int PMPI_Info_get_nthkey(MPI_Info info, int n, char *key)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Info_get_nthkey";
	struct hdl_info *i = info_get(info);

	if (!i)
		return bad_info(NULL, call, info);
	if (n < 0 || n >= i->n)
		return hdl_raise(NULL, MPI_ERR_ARG, call, "invalid n %d: the object has %d key%s, counted from 0", n, i->n,
				 i->n == 1 ? "" : "s");
	if (!key)
		return hdl_null_arg(NULL, call, "key");
	snprintf(key, MPI_MAX_INFO_KEY, "%s", i->pairs[n].key);
	return MPI_SUCCESS;
}
HDL_PROFILED(Info_get_nthkey);
