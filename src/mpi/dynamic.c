/* SPDX-License-Identifier: BSD-3-Clause */
/* Processes that were started separately (MPI-5.0 chapter 11). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "mpi/info.h"
#include "mpi/mpi_internal.h"
#include "p2p/dpm/handshake.h"

/* A peer with which there can be no communication is no error, but gives no communicator (section 11.10.5). */
int PMPI_Comm_join(int fd, MPI_Comm *intercomm)
{
	HDL_LOCKED;
	HDL_GIVES(intercomm);
	static const char call[] = "MPI_Comm_join";
	struct hdl_dpm_peer peer = { 0 };
	struct hdl_comm *made = NULL;
	int err, rc;

	hdl_check_active(call);
	if (!intercomm)
		return hdl_null_arg(&hdl_self, call, "intercomm");
	hdl_call = call;
	err = hdl_dpm_handshake(fd, &peer);
	if (err)
		return hdl_raise(&hdl_self, err == -EBADF || err == -ENOTSOCK ? MPI_ERR_ARG : MPI_ERR_OTHER, call,
				 "fd %d: %s", fd, err == -EPROTO ? "the process at the other end has said something else than "
				 "MPI_Comm_join of this library does: was the socket quiet?" : strerror(-err));
	*intercomm = MPI_COMM_NULL;
	if (!peer.other)
		return MPI_SUCCESS;
	rc = hdl_intercomm_with(&hdl_self, 0, 0, peer.other, peer.tag, &made);
	hdl_group_release(peer.other);
	if (rc)
		return hdl_raise_class(&hdl_self, rc, call);
	*intercomm = (MPI_Comm)made;
	return MPI_SUCCESS;
}
HDL_PROFILED(Comm_join);

/* ---- ports --------------------------------------------------------------------------------------------- */

int PMPI_Open_port(MPI_Info info, char *port_name)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Open_port";
	const struct hdl_info *given;
	int err, rc;

	hdl_check_active(call);
	if (!port_name)
		return hdl_null_arg(&hdl_self, call, "port_name");
	rc = hdl_info_arg(&hdl_self, call, info, &given);
	if (rc)
		return rc;
	err = hdl_port_open(port_name);
	return err ? hdl_raise(&hdl_self, MPI_ERR_PORT, call, "no socket can listen: %s", strerror(-err)) : MPI_SUCCESS;
}
HDL_PROFILED(Open_port);

int PMPI_Close_port(const char *port_name)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Close_port";

	hdl_check_active(call);
	if (!port_name)
		return hdl_null_arg(&hdl_self, call, "port_name");
	if (hdl_port_close(port_name))
		return hdl_raise(&hdl_self, MPI_ERR_PORT, call,
				 "invalid port_name \"%.*s\": this process has no such port open", 80, port_name);
	return MPI_SUCCESS;
}
HDL_PROFILED(Close_port);

typedef int (*dpm_fn)(const char *name, struct hdl_dpm_peer *m);

/* Sets *ns to info's key timeout, in seconds; without the key to us microseconds. 0: no limit. */
static int get_timeout(struct hdl_comm *c, const char *call, const struct hdl_info *info, uint64_t us, uint64_t *ns)
{
	const char *text = hdl_info_value(info, "timeout");
	char *end;
	double s;

	*ns = us * 1000;
	if (!text)
		return MPI_SUCCESS;
	s = strtod(text, &end);
	if (end == text || *end || !(s >= 0 && s < 1e9))
		return hdl_raise(c, MPI_ERR_INFO_VALUE, call,
				 "invalid timeout \"%.40s\" in info: seconds are wanted, 0 to wait for ever", text);
	/* 0 would mean no limit */
	*ns = s > 0 && s < 1e-9 ? 1 : (uint64_t)(s * 1e9);
	return MPI_SUCCESS;
}

/* Writes how long a call has waited, for the text of an error. */
static const char *waited(char text[96], uint64_t ns, const struct hdl_info *info)
{
	snprintf(text, 96, "within %g s (%s)", (double)ns / 1e9, hdl_info_value(info, "timeout") ? "info's key timeout" :
		 "HEDDLE_CONNECT_TIMEOUT, or a key timeout in info");
	return text;
}

/* On the root, where alone port_name and info are significant: the handshake. Returns MPI_SUCCESS, or the code that all other
 * ranks of the group get, too. */
static int dpm_meet(struct hdl_comm *c, const char *call, const char *port_name, MPI_Info info, dpm_fn fn,
		    struct hdl_dpm_peer *peer)
{
	const struct hdl_info *given;
	int err, rc = hdl_info_arg(c, call, info, &given);
	char why[256], how_long[96];
	uint64_t ns = 0;

	if (!rc)
		rc = get_timeout(c, call, given, fn == hdl_port_connect ? hdl_vars.connect_timeout : 0, &ns);

	if (rc)
		return rc;
	if (!port_name)
		return hdl_null_arg(c, call, "port_name");
	peer->comm = c;
	peer->deadline = ns ? monotonic_ns() + ns : 0;
	hdl_cid_outside(c, 1);
	err = fn(port_name, peer);
	hdl_cid_outside(c, -1);
	if (err == -EOWNERDEAD)
		return hdl_raise(c, MPI_ERR_PROC_ABORTED, call,
				 "port \"%.*s\": while this rank waited there, %s, a member of comm, has failed or "
				 "cannot be reached: look at its output for why",
				 80, port_name, hdl_proc_text_full(hdl_recv_revoked(c, (uint16_t)(c->context + 1)) - 1));
	waited(how_long, ns, given);
	if (err == -ETIME)
		snprintf(why, sizeof(why),
			 "its process has not called MPI_Comm_accept %s: does it run, and does another one keep it busy?",
			 how_long);
	else if (err == -ETIMEDOUT && fn == hdl_port_accept)
		snprintf(why, sizeof(why), "no process has come %s", how_long);
	else if (err == -ETIMEDOUT)
		snprintf(why, sizeof(why),
			 "its host has not answered %s: is it stopped, or does a firewall keep this process from it?",
			 how_long);
	if (err)
		return hdl_raise(
			c, MPI_ERR_PORT, call, "port \"%.*s\": %s", 80, port_name,
			err == -ETIME || err == -ETIMEDOUT ? why :
			err == -ENOENT                     ? "this process has not opened it, or has closed it meanwhile" :
			err == -EINVAL                     ? "this is no name of a port" :
			err == -ECONNREFUSED               ? "nobody listens there: was it closed, or has its process ended?" :
			err == -ECONNRESET ? "it was closed while this process waited, or its process has ended" :
			err == -EPERM ? "the name is another port's, or not all of it: was it cut, or is it of an earlier run?" :
			err == -EPROTO ? "what listens there is not a port of this version of Heddle" :
					 strerror(-err));
	if (!peer->other)
		return hdl_raise(
			c, MPI_ERR_PORT, call, "port \"%.80s\": there can be no communication with its process%s", port_name,
			peer->refused != -ENETUNREACH ?
				" (both print why)" :
				", which is in another fabric of the software HCA: start both jobs in one fabric, by the same "
				"name for both (heddlerun -x SHCA_FABRIC=NAME)");
	return MPI_SUCCESS;
}

static int pair_up(const char *call, const char *port_name, MPI_Info info, int root, MPI_Comm comm, dpm_fn fn, MPI_Comm *newcomm)
{
	struct hdl_comm *c = hdl_intracomm_get(comm), *made = NULL;
	struct hdl_dpm_peer peer = { 0 };
	int rc, leader_error = MPI_SUCCESS;

	if (!c)
		return hdl_bad_intracomm(call, comm);
	if (root < 0 || root >= c->size)
		return hdl_bad_rank(c, MPI_ERR_ROOT, call, "root", root);
	if (!newcomm)
		return hdl_null_arg(c, call, "newcomm");
	hdl_call = call;
	if (c->rank == root)
		leader_error = dpm_meet(c, call, port_name, info, fn, &peer);
	rc = hdl_intercomm_with(c, root, leader_error ? hdl_error_class(leader_error) : 0, peer.other, peer.tag, &made);
	if (peer.other)
		hdl_group_release(peer.other);
	if (leader_error)
		return leader_error;
	if (rc)
		return hdl_raise_class(c, rc, call);
	*newcomm = (MPI_Comm)made;
	return MPI_SUCCESS;
}

int PMPI_Comm_accept(const char *port_name, MPI_Info info, int root, MPI_Comm comm, MPI_Comm *newcomm)
{
	HDL_LOCKED;
	HDL_GIVES(newcomm);
	return pair_up("MPI_Comm_accept", port_name, info, root, comm, hdl_port_accept, newcomm);
}
HDL_PROFILED(Comm_accept);

int PMPI_Comm_connect(const char *port_name, MPI_Info info, int root, MPI_Comm comm, MPI_Comm *newcomm)
{
	HDL_LOCKED;
	HDL_GIVES(newcomm);
	return pair_up("MPI_Comm_connect", port_name, info, root, comm, hdl_port_connect, newcomm);
}
HDL_PROFILED(Comm_connect);
