/* SPDX-License-Identifier: BSD-3-Clause */
/* Constructors of communicators (MPI-5.0 sections 7.4.2, 7.6.2): the members of the new communicator, after the agreement
 * (comm_cid.h). */
#include "base/fnv.h"
#include "p2p/comm/comm.h"
#include "p2p/comm/ids.h"
#include "p2p/fault/fault.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- shared by the constructors ------------------------------------------------------------------- */

/* Returns the arguments of an agreement of all ranks of comm, or of both groups of an intercommunicator. table: entries of `each`
 * bytes for the ranks of the (local) group. */
static struct hdl_cid_agreement agreement(struct hdl_comm *comm, size_t each, void *table)
{
	struct hdl_comm *local = hdl_comm_local(comm);
	int tag = hdl_cid_tag(comm->agreements++);
	uint16_t context = (uint16_t)(comm->context + 1);
	struct hdl_cid_agreement a = { .comm = local, .n = local->size, .me = local->rank, .context = context, .tag = tag,
				   .entry_bytes = each, .table = table, .inter = comm->local != NULL };

	if (a.inter && a.me == a.root) {
		a.link_comm = comm;	/* the leader of the remote group is rank 0 of comm */
		a.link_context = context;
		a.link_tag = tag;
	}
	return a;
}

static struct hdl_cid_agreement agreement_of_group(struct hdl_comm *comm, const struct hdl_group *group, int root,
						   uint16_t context, int tag)
{
	return (struct hdl_cid_agreement){ .comm = comm, .group = comm->group == group ? NULL : group, .n = group->size,
				   .me = group->rank, .root = root, .context = context, .tag = tag };
}

static void *construct_must(void *p, size_t bytes)
{
	if (!p)
		hdl_out_of_memory("making a communicator", bytes);
	return p;
}

static void *table_new(int n, size_t each)
{
	return construct_must(calloc((size_t)n + 1, each), (size_t)n * each);
}

static struct hdl_group *group_of_procs(int *procs, int n)
{
	return construct_must(hdl_group_table(procs, n), (size_t)n * sizeof(*procs));
}

/* Makes an intercommunicator. Takes over the references to both groups. */
static struct hdl_comm *inter_new(struct hdl_group *local, struct hdl_group *remote)
{
	struct hdl_comm *c = hdl_comm_new(remote);

	c->local = hdl_comm_new(local);
	c->local->part = true;
	return c;
}

/* Makes a communicator of the same groups and topology (section 8.2: a duplicate has the topology). */
static struct hdl_comm *like(struct hdl_comm *comm)
{
	struct hdl_comm *c;

	if (comm->local)
		return inter_new(hdl_group_retain(comm->local->group), hdl_group_retain(comm->group));
	c = hdl_comm_new(hdl_group_retain(comm->group));
	c->topo = hdl_topo_retain(comm->topo);
	return c;
}

/* ---- duplicates ---------------------------------------------------------------------------------------- */

int hdl_comm_dup(struct hdl_comm *comm, struct hdl_comm **out)
{
	struct hdl_cid_agreement a = agreement(comm, 0, NULL);
	int rc = hdl_cid_agreement(&a);

	*out = NULL;
	if (rc)
		return rc;
	*out = like(comm);
	hdl_comm_begin(*out, a.id, comm->errhandler, comm->session);
	return MPI_SUCCESS;
}

struct idup {
	struct hdl_cid_agreement a;
	struct hdl_comm *made;
	struct hdl_session *session;	/* the parent's; req holds a reference to the parent */
	struct hdl_req *req;
};

static void idup_finished(struct hdl_cid_agreement *a)
{
	struct idup *d = a->arg;
	MPI_Errhandler errhandler = d->made->errhandler;

	if (a->error) {
		hdl_req_reason(d->req, a->why);
		hdl_comm_forget(d->made);
	} else {
		hdl_comm_begin(d->made, a->id, errhandler, d->session);
		if (d->made->unwanted)
			hdl_comm_close(d->made);
	}
	hdl_errhandler_release(errhandler);
	hdl_req_complete(d->req, a->error);
	free(d);
}

int hdl_comm_idup(struct hdl_comm *comm, struct hdl_comm **out, struct hdl_req **req)
{
	struct idup *d = construct_must(calloc(1, sizeof(*d)), sizeof(*d));

	*out = NULL;
	d->req = hdl_req_new(comm);
	if (!d->req) {
		free(d);
		hdl_reason_set("out of memory for requests");
		return MPI_ERR_NO_MEM;
	}
	d->a = agreement(comm, 0, NULL);
	d->a.finished = idup_finished;
	d->a.arg = d;
	d->made = like(comm);
	d->session = comm->session;
	/* the handle may be passed to local calls; the error handler is the original's until the program sets another one */
	d->made->obj.magic = HDL_MAGIC_COMM_BEGUN;
	d->made->errhandler = comm->errhandler;
	hdl_errhandler_retain(comm->errhandler);
	*out = d->made;
	*req = d->req;
	hdl_cid_start(&d->a);
	return MPI_SUCCESS;
}

/* ---- split, create ------------------------------------------------------------------------------------- */

struct split {
	int color, key, rank;
};

static int split_order(const void *a, const void *b)
{
	const struct split *x = a, *y = b;

	if (x->key != y->key)
		return x->key < y->key ? -1 : 1;
	return x->rank < y->rank ? -1 : 1;
}

/* Returns the group of the entries of this color, in the order of keys. group: that of the ranks in the table. Sorts the
 * table. */
static struct hdl_group *construct_part_of(struct split *table, int n, int color, const struct hdl_group *group)
{
	int *procs, k = 0;

	for (int r = 0; r < n; r++)
		if (table[r].color == color)
			table[k++] = table[r];
	qsort(table, (size_t)k, sizeof(*table), split_order);
	procs = table_new(k, sizeof(*procs));
	for (int r = 0; r < k; r++)
		procs[r] = hdl_group_proc(group, table[r].rank);
	return group_of_procs(procs, k);
}

int hdl_comm_split(struct hdl_comm *comm, int color, int key, struct hdl_comm **out)
{
	struct hdl_comm *local = hdl_comm_local(comm);
	struct split *table = table_new(local->size, sizeof(*table));
	struct hdl_cid_agreement a = agreement(comm, sizeof(*table), table);
	struct hdl_group *mine, *remote = NULL;
	int rc;

	*out = NULL;
	table[local->rank] = (struct split){ color, key, local->rank };
	rc = hdl_cid_agreement(&a);
	if (!rc && color != MPI_UNDEFINED) {
		mine = construct_part_of(table, local->size, color, local->group);
		if (a.inter)
			remote = construct_part_of(a.remote, a.remote_n, color, comm->group);
		if (!a.inter) {
			*out = hdl_comm_new(mine);
		} else if (remote->size) {
			*out = inter_new(mine, remote);
		} else {		/* no member of the remote group has this color */
			hdl_group_release(mine);
			hdl_group_release(remote);
		}
	}
	if (*out)
		hdl_comm_begin(*out, a.id, comm->errhandler, comm->session);
	else if (!rc)
		hdl_id_give((unsigned)a.id);
	free(a.remote);
	free(table);
	return rc;
}

int hdl_comm_create(struct hdl_comm *comm, struct hdl_group *group, struct hdl_comm **out)
{
	struct hdl_cid_agreement a;
	int rc;

	if (comm->local)
		return hdl_comm_split(comm, group->rank == MPI_UNDEFINED ? MPI_UNDEFINED : 0, group->rank, out);
	*out = NULL;
	a = agreement(comm, 0, NULL);
	rc = hdl_cid_agreement(&a);
	if (rc)
		return rc;
	if (group->rank == MPI_UNDEFINED) {
		hdl_id_give((unsigned)a.id);
		return MPI_SUCCESS;
	}
	*out = hdl_comm_new(hdl_group_retain(group));
	hdl_comm_begin(*out, a.id, comm->errhandler, comm->session);
	return MPI_SUCCESS;
}

int hdl_comm_permute(struct hdl_comm *comm, const int *order, int n, struct hdl_comm **out)
{
	struct hdl_group *group;
	int *procs = table_new(n, sizeof(*procs)), rc;

	for (int r = 0; r < n; r++)
		procs[r] = hdl_comm_proc(comm, order[r]);
	group = group_of_procs(procs, n);
	rc = hdl_comm_create(comm, group, out);
	hdl_group_release(group);
	return rc;
}

int hdl_comm_exchange(struct hdl_comm *comm, void *table, size_t each)
{
	struct hdl_cid_agreement a = agreement(comm, each, table);

	a.no_id = true;
	return hdl_cid_agreement(&a);
}

static int wait_all(struct hdl_req **req, int n, int rc)
{
	for (int i = 0; i < n; i++) {
		if (rc)		/* the message of this receive may never come */
			hdl_req_cancel(req[i]);
		hdl_req_wait(req[i]);
		if (!rc && req[i]->error) {
			rc = req[i]->error;
			hdl_req_explain(req[i]);
		}
		hdl_req_free(req[i]);
	}
	return rc;
}

int hdl_comm_deliver(struct hdl_comm *comm, size_t each, const void *out, const int *out_count, void *in, const int *in_count)
{
	struct hdl_req **req = table_new(2 * comm->size, sizeof(*req));
	const struct hdl_type *byte = hdl_type_get(MPI_BYTE);
	uint16_t context = (uint16_t)(comm->context + 1);
	int tag = hdl_cid_tag(comm->agreements++), n = 0, rc = MPI_SUCCESS;
	const char *from = out;
	char *to = in;
	MPI_Count bytes;

	for (int r = 0; r < comm->size && !rc; to += bytes, r++) {
		bytes = in_count[r] * (MPI_Count)each;
		if (bytes && r != comm->rank)
			rc = hdl_irecv(to, bytes, byte, r, tag, comm, context, &req[n]);
		n += bytes && r != comm->rank && !rc;
	}
	to = in;
	for (int r = 0; r < comm->size && !rc; from += bytes, to += in_count[r] * (MPI_Count)each, r++) {
		bytes = out_count[r] * (MPI_Count)each;
		if (r == comm->rank && bytes)
			memcpy(to, from, (size_t)bytes);
		else if (bytes)
			rc = hdl_isend(from, bytes, byte, r, tag, comm, context, false, &req[n]);
		n += bytes && r != comm->rank && !rc;
	}
	rc = wait_all(req, n, rc);
	free(req);
	return rc;
}

/* ---- from a group ------------------------------------------------------------------------------------------ */

int hdl_comm_create_group(struct hdl_comm *comm, struct hdl_group *group, int tag, struct hdl_comm **out)
{
	struct hdl_cid_agreement a = agreement_of_group(comm, group, 0, (uint16_t)(comm->context + 1), hdl_cid_tag_of_user(tag));
	int rc = hdl_cid_agreement(&a);

	*out = NULL;
	if (rc)
		return rc;
	*out = hdl_comm_new(hdl_group_retain(group));
	hdl_comm_begin(*out, a.id, comm->errhandler, comm->session);
	return MPI_SUCCESS;
}

/* The tag of a constructor without a communicator: 31 bits of a hash of the string and of the members. Constructors that are
 * under way at a time differ by their strings. The hash includes the members because survivors may call the constructor again
 * with the same string without the failed member: messages of the first attempt must not match. */
static int tag_of(const char *string, const struct hdl_group *group, const struct hdl_group *other)
{
	uint32_t h = fnv1a_32(FNV1A_32, string, strlen(string)), sum = 0;

	for (const struct hdl_group *g = group; g; g = g == other ? NULL : other)
		for (int r = 0; r < g->size; r++) {
			int proc = hdl_group_proc(g, r), rank = hdl_proc_rank(proc);
			uint64_t job = hdl_proc_job(proc);

			sum += fnv1a_32(fnv1a_32(FNV1A_32, &job, sizeof(job)), &rank, sizeof(rank));
		}
	h ^= sum;
	return (int)((h ^ h >> 31) % HDL_FT_TAG);
}

/* Makes a communicator of the group for an agreement. Its contexts are those of HDL_ID_GROUPS until the agreement has an id. */
static struct hdl_comm *parentless(struct hdl_group *group)
{
	struct hdl_comm *comm = hdl_comm_new(hdl_group_retain(group));

	comm->context = 2 * HDL_ID_GROUPS;
	comm->errhandler = MPI_ERRORS_RETURN;	/* no error is raised on it */
	return comm;
}

/* Drops the reference to a communicator of parentless(): messages in flight may have others. part: the contexts stay. */
static void parentless_free(struct hdl_comm *comm)
{
	comm->part = true;
	hdl_comm_release(comm);
}

int hdl_comm_create_from_group(struct hdl_group *group, const char *stringtag, MPI_Errhandler errhandler,
			       struct hdl_comm **out)
{
	struct hdl_comm *comm = parentless(group);
	struct hdl_cid_agreement a =
		agreement_of_group(comm, group, 0, (uint16_t)(comm->context + 1), tag_of(stringtag, group, NULL));
	int rc = hdl_cid_agreement(&a);

	*out = NULL;
	if (rc) {
		parentless_free(comm);
		return rc;
	}
	*out = comm;
	hdl_comm_begin(comm, a.id, errhandler, group->session);
	return MPI_SUCCESS;
}

/* ---- intercommunicators -------------------------------------------------------------------------------- */

struct address {
	uint64_t bytes;
	char record[HDL_ADDRESS_MAX];
};

/* Returns the arguments of another agreement of the same members, for no id. */
static struct hdl_cid_agreement further(const struct hdl_cid_agreement *first)
{
	return (struct hdl_cid_agreement){ .comm = first->comm, .group = first->group, .n = first->n, .me = first->me,
				   .root = first->root, .context = first->context, .tag = first->tag, .inter = true,
				   .no_id = true, .link_comm = first->link_comm, .link_rank = first->link_rank,
				   .link_tag = first->link_tag, .link_context = first->link_context };
}

static int add_peers(const struct hdl_group *remote, const struct address *theirs)
{
	for (int r = 0; r < remote->size; r++)
		if (theirs[r].bytes > sizeof(theirs[r].record) ||
		    hdl_peer_add(hdl_mpi_tp, hdl_group_proc(remote, r), theirs[r].record, theirs[r].bytes)) {
			hdl_reason_set("there can be no communication with rank %d of the other group, %s", r,
				       hdl_proc_text(hdl_group_proc(remote, r)));
			return MPI_ERR_OTHER;
		}
	return MPI_SUCCESS;
}

/* Exchanges the addresses of two groups of different jobs. Returns only when each member of the other group has this one's
 * address: a message from an unknown process is dropped, and kinds that send without a connection (DC, XRC) do not repeat it.
 * remote: NULL if this member cannot go on, for the reason that is set; then the exchange fails on all members. */
static int exchange_addresses(const struct hdl_cid_agreement *first, const struct hdl_group *remote)
{
	struct address *table = table_new(first->n, sizeof(*table));
	struct hdl_cid_agreement a = further(first), all = a;
	struct address *mine;
	int rc, added;

	a.unable = !remote;
	a.entry_bytes = sizeof(*table);
	a.table = table;
	mine = hdl_cid_entry(&a, a.me);
	mine->bytes = hdl_tp_address(hdl_mpi_tp, mine->record);
	rc = hdl_cid_agreement(&a);
	if (!rc) {
		added = add_peers(remote, a.remote);
		all.unable = added != MPI_SUCCESS;
		rc = hdl_cid_agreement(&all);
		rc = added ? added : rc;
	}
	free(a.remote);
	free(table);
	return rc;
}

/* Makes the intercommunicator. The other root's data describes the remote group (hdl_group_describe). A member may be unable to
 * number those processes: its table of jobs is full, or has another job of the same name. The remote group is of another job
 * then, so all other members are in exchange_addresses, which this member enters in order to make the exchange fail. */
static int make_inter(struct hdl_cid_agreement *a, struct hdl_group *local, MPI_Errhandler errhandler, struct hdl_comm **out)
{
	struct hdl_group *remote;
	int rc, err;

	hdl_jobs_free_gone();	/* ahead of a job more: so a program that spawns without end does not grow */
	remote = hdl_group_described(a->remote_data, a->remote_data_bytes);
	err = errno;

	if (!remote) {
		if (err == ENOMEM)
			construct_must(NULL, a->remote_data_bytes);
		hdl_reason_set("the other group, as its leader describes it, cannot be made: %s", err == ENOSPC ?
			       "this process has met so many other jobs that no numbers are left for more processes" :
			       "are its ranks of another version of the library, or are there two jobs of one name?");
		exchange_addresses(a, NULL);
		hdl_id_give((unsigned)a->id);
		return MPI_ERR_OTHER;
	}
	for (int r = 0; r < remote->size; r++)
		if (hdl_group_rank_of(local, hdl_group_proc(remote, r)) != MPI_UNDEFINED) {
			hdl_reason_set("the two groups overlap: rank %d of the remote one is in the local one, too", r);
			hdl_group_release(remote);
			hdl_id_give((unsigned)a->id);
			return MPI_ERR_COMM;
		}
	if (hdl_group_spans_jobs(local, remote) && (rc = exchange_addresses(a, remote))) {
		hdl_group_release(remote);
		hdl_id_give((unsigned)a->id);
		return rc;
	}
	*out = inter_new(hdl_group_retain(local), remote);
	hdl_comm_begin(*out, a->id, errhandler, local->session);
	return MPI_SUCCESS;
}

static int agree_with_other(struct hdl_cid_agreement *a, struct hdl_group *local, MPI_Errhandler errhandler,
			    struct hdl_comm **out)
{
	void *self = NULL;
	int rc;

	*out = NULL;
	a->inter = true;
	if (a->me == a->root)
		a->root_data = self =
			construct_must(hdl_group_describe(local, &a->root_data_bytes), (size_t)local->size * sizeof(int));
	rc = hdl_cid_agreement(a);
	if (!rc)
		rc = make_inter(a, local, errhandler, out);
	free(self);
	free(a->remote_data);
	return rc;
}

int hdl_intercomm_create(struct hdl_comm *local, int leader, int leader_error, struct hdl_comm *peer, int remote_leader, int tag,
			 struct hdl_comm **out)
{
	struct hdl_cid_agreement a = agreement(local, 0, NULL);

	a.root = leader;
	a.leader_error = leader_error;
	if (a.me == leader && !leader_error) {	/* the program's tag (section 7.6.2), apart from the tags of its messages */
		a.link_comm = peer;
		a.link_rank = remote_leader;
		a.link_context = (uint16_t)(peer->context + 1);
		a.link_tag = hdl_cid_tag_of_leader_link(tag);
	}
	return agree_with_other(&a, local->group, local->errhandler, out);
}

int hdl_intercomm_create_from_groups(struct hdl_group *local, int leader, int leader_error, struct hdl_group *remote,
				     int remote_leader, const char *stringtag, MPI_Errhandler errhandler,
				     struct hdl_comm **out)
{
	struct hdl_comm *comm = parentless(local);
	struct hdl_cid_agreement a =
		agreement_of_group(comm, local, leader, (uint16_t)(comm->context + 1), tag_of(stringtag, local, NULL));
	int rc;

	a.leader_error = leader_error;
	if (a.me == leader && !leader_error) {
		a.link_comm = parentless(remote);
		a.link_rank = remote_leader;
		a.link_context = a.context;
		a.link_tag = tag_of(stringtag, local, remote);
	}
	rc = agree_with_other(&a, local, errhandler, out);
	if (a.link_comm)
		parentless_free(a.link_comm);
	parentless_free(comm);
	return rc;
}

int hdl_intercomm_with(struct hdl_comm *local, int root, int leader_error, struct hdl_group *other, int tag,
		       struct hdl_comm **out)
{
	struct hdl_cid_agreement a = agreement(local, 0, NULL);
	int rc;

	a.root = root;
	a.leader_error = leader_error;
	if (a.me == root && !leader_error) {
		a.link_comm = parentless(other);
		a.link_context = (uint16_t)(a.link_comm->context + 1);
		a.link_tag = hdl_cid_tag_of_user(tag);
	}
	rc = agree_with_other(&a, local->group, local->errhandler, out);
	if (a.link_comm)
		parentless_free(a.link_comm);
	return rc;
}

int hdl_intercomm_merge(struct hdl_comm *comm, bool high, struct hdl_comm **out)
{
	struct hdl_comm *local = comm->local;
	struct hdl_group *first = local->group, *last = comm->group;
	bool *table = table_new(local->size, sizeof(*table)), theirs;
	struct hdl_cid_agreement a = agreement(comm, sizeof(*table), table);
	int rc, *procs;

	*out = NULL;
	table[local->rank] = high;
	rc = hdl_cid_agreement(&a);
	if (!rc) {
		/* The value of rank 0 counts for its group. If both groups pass the same value, hdl_proc_before orders the
		 * processes of rank 0. */
		high = table[0];
		theirs = *(bool *)a.remote;
		if (high != theirs ? high : hdl_proc_before(hdl_group_proc(last, 0), hdl_group_proc(first, 0))) {
			first = comm->group;
			last = local->group;
		}
		procs = table_new(first->size + last->size, sizeof(*procs));
		for (int r = 0; r < first->size; r++)
			procs[r] = hdl_group_proc(first, r);
		for (int r = 0; r < last->size; r++)
			procs[first->size + r] = hdl_group_proc(last, r);
		*out = hdl_comm_new(group_of_procs(procs, first->size + last->size));
		hdl_comm_begin(*out, a.id, comm->errhandler, comm->session);
	}
	free(a.remote);
	free(table);
	return rc;
}
