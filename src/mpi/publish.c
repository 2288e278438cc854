/* SPDX-License-Identifier: BSD-3-Clause */
/* Published names (MPI-5.0 section 11.9.4). The launcher has the store. */
#include <errno.h>
#include <string.h>

#include "mpi/info.h"

/* Checks the arguments that the three functions share, and finds a launcher. Returns MPI_SUCCESS, or the code of the
 * error, which was raised. */
static int publish_begin(const char *call, int class, const char *service_name, MPI_Info info, const char *port_name)
{
	const struct hdl_info *given;
	char why[512];
	int rc;

	hdl_check_active(call);
	if (!service_name || !port_name)
		return hdl_null_arg(&hdl_self, call, service_name ? "port_name" : "service_name");
	rc = hdl_info_arg(&hdl_self, call, info, &given);
	if (rc)
		return rc;
	hdl_call = call;
	return hdl_rt_attach(why, sizeof(why)) ? hdl_raise(&hdl_self, class, call, "%s", why) : MPI_SUCCESS;
}

int PMPI_Publish_name(const char *service_name, MPI_Info info, const char *port_name)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Publish_name";
	char why[512] = "";
	int err, rc = publish_begin(call, MPI_ERR_SERVICE, service_name, info, port_name);

	if (rc)
		return rc;
	if (strnlen(port_name, MPI_MAX_PORT_NAME) == MPI_MAX_PORT_NAME)
		return hdl_raise(&hdl_self, MPI_ERR_PORT, call, "invalid port_name: it has more than %d characters",
				 MPI_MAX_PORT_NAME - 1);
	err = hdl_rt_publish(service_name, port_name, why, sizeof(why));
	if (err == -EEXIST)
		return hdl_raise(&hdl_self, MPI_ERR_SERVICE, call, "service_name \"%.80s\" is published already", service_name);
	return err ? hdl_raise(&hdl_self, MPI_ERR_SERVICE, call, "service_name \"%.80s\": %s", service_name, why) : MPI_SUCCESS;
}
HDL_PROFILED(Publish_name);

int PMPI_Unpublish_name(const char *service_name, MPI_Info info, const char *port_name)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Unpublish_name";
	char why[512] = "";
	int err, rc = publish_begin(call, MPI_ERR_SERVICE, service_name, info, port_name);

	if (rc)
		return rc;
	err = hdl_rt_unpublish(service_name, why, sizeof(why));
	if (err == -ENOENT)
		return hdl_raise(&hdl_self, MPI_ERR_SERVICE, call, "service_name \"%.80s\" is not published", service_name);
	if (err == -EPERM)
		return hdl_raise(&hdl_self, MPI_ERR_SERVICE, call,
				 "service_name \"%.80s\" was published under another heddlerun, which alone can "
				 "unpublish it",
				 service_name);
	return err ? hdl_raise(&hdl_self, MPI_ERR_SERVICE, call, "service_name \"%.80s\": %s", service_name, why) : MPI_SUCCESS;
}
HDL_PROFILED(Unpublish_name);

int PMPI_Lookup_name(const char *service_name, MPI_Info info, char *port_name)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Lookup_name";
	char why[512] = "";
	int err, rc = publish_begin(call, MPI_ERR_NAME, service_name, info, port_name);

	if (rc)
		return rc;
	err = hdl_rt_lookup(service_name, port_name, MPI_MAX_PORT_NAME, why, sizeof(why));
	if (err == -ENOENT)
		return hdl_raise(&hdl_self, MPI_ERR_NAME, call, "service_name \"%.80s\" is not published", service_name);
	return err ? hdl_raise(&hdl_self, MPI_ERR_NAME, call, "service_name \"%.80s\": %s", service_name, why) : MPI_SUCCESS;
}
HDL_PROFILED(Lookup_name);
