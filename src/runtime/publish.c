/* SPDX-License-Identifier: BSD-3-Clause */
/* Published names, by PMIx. */
#include <errno.h>
#include <pmix.h>
#include <string.h>

#include "runtime/exchange.h"
#include "runtime/pmix_fds.h"

static int publish_errno(pmix_status_t rc, char *why, size_t size)
{
	if (rc == PMIX_SUCCESS || rc == PMIX_OPERATION_SUCCEEDED)
		return 0;
	snprintf(why, size, "%s: %s", hdl_job.launcher, PMIx_Error_string(rc));
	switch (rc) {
	case PMIX_ERR_DUPLICATE_KEY:
		return -EEXIST;
	case PMIX_ERR_NOT_FOUND:
		return -ENOENT;
	case PMIX_ERR_NO_PERMISSIONS:
		return -EPERM;
	case PMIX_ERR_NOMEM:
		return -ENOMEM;
	case PMIX_ERR_NOT_SUPPORTED:
	case PMIX_ERR_NOT_IMPLEMENTED:
		snprintf(why, size,
			 "%s has no store of names (PMIx_Publish): start the program with heddlerun or prterun instead",
			 hdl_job.launcher);
		return -ENOSYS;
	default:
		return -EIO;
	}
}

static int name_check(const char *name, char *why, size_t size)
{
	if (*name && strlen(name) <= PMIX_MAX_KEYLEN)
		return 0;
	snprintf(why, size, *name ? "the name has %zu characters, PMIx allows %d" : "the name is empty", strlen(name),
		 PMIX_MAX_KEYLEN);
	return -EINVAL;
}

int hdl_rt_publish(const char *name, const char *value, char *why, size_t size)
{
	pmix_persistence_t persist = PMIX_PERSIST_PROC;
	pmix_data_range_t range = PMIX_RANGE_SESSION;
	int err = name_check(name, why, size);
	pmix_info_t info[3];
	pmix_status_t rc;

	if (err)
		return err;
	PMIX_INFO_LOAD(&info[0], name, value, PMIX_STRING);
	PMIX_INFO_LOAD(&info[1], PMIX_RANGE, &range, PMIX_DATA_RANGE);
	PMIX_INFO_LOAD(&info[2], PMIX_PERSISTENCE, &persist, PMIX_PERSIST);
	hdl_pmix_fds_check("PMIx_Publish");
	rc = PMIx_Publish(info, 3);
	for (int i = 0; i < 3; i++)
		PMIX_INFO_DESTRUCT(&info[i]);
	return publish_errno(rc, why, size);
}

int hdl_rt_unpublish(const char *name, char *why, size_t size)
{
	pmix_data_range_t range = PMIX_RANGE_SESSION;
	int err = name_check(name, why, size);
	pmix_info_t info;
	pmix_status_t rc;
	char key[PMIX_MAX_KEYLEN + 1], *keys[] = { key, NULL };

	if (err)
		return err;
	strcpy(key, name);
	PMIX_INFO_LOAD(&info, PMIX_RANGE, &range, PMIX_DATA_RANGE);
	hdl_pmix_fds_check("PMIx_Unpublish");
	rc = PMIx_Unpublish(keys, &info, 1);
	PMIX_INFO_DESTRUCT(&info);
	return publish_errno(rc, why, size);
}

int hdl_rt_lookup(const char *name, char *value, size_t room, char *why, size_t size)
{
	pmix_data_range_t range = PMIX_RANGE_SESSION;
	int err = name_check(name, why, size);
	pmix_pdata_t data;
	pmix_info_t info;
	pmix_status_t rc;

	if (err)
		return err;
	PMIX_PDATA_CONSTRUCT(&data);
	PMIX_LOAD_KEY(data.key, name);
	PMIX_INFO_LOAD(&info, PMIX_RANGE, &range, PMIX_DATA_RANGE);
	hdl_pmix_fds_check("PMIx_Lookup");
	rc = PMIx_Lookup(&data, 1, &info, 1);
	PMIX_INFO_DESTRUCT(&info);
	err = publish_errno(rc, why, size);
	if (!err && (data.value.type != PMIX_STRING || !data.value.data.string)) {
		snprintf(why, size, "its value is no text");
		err = -ENOENT;
	} else if (!err) {
		snprintf(value, room, "%s", data.value.data.string);
	}
	PMIX_PDATA_DESTRUCT(&data);
	return err;
}
