/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The C side of Fortran procedures that fortran.awk does not make (`hand` in fortran.def): included by calls.c and pcalls.c,
 * behind MPIFORT_NAME (the linker name), MPIFORT_CALL (MPI_ or PMPI_) and MPIFORT_ALIAS.
 */

#define DONE(rc)						\
	do {							\
		int done_rc = (rc);				\
								\
		if (ierror)					\
			*ierror = done_rc;			\
	} while (0)

/* ---- start and end ---------------------------------------------------------------------------------------- */

void MPIFORT_NAME(init)(MPI_Fint *ierror)
{
	mpifort_tell_abi();
	DONE(MPIFORT_CALL(Init)(NULL, NULL));
}
MPIFORT_ALIAS(init, init_f08);

void MPIFORT_NAME(init_thread)(const int *required, int *provided, MPI_Fint *ierror)
{
	mpifort_tell_abi();
	DONE(MPIFORT_CALL(Init_thread)(NULL, NULL, *required, provided));
}
MPIFORT_ALIAS(init_thread, init_thread_f08);

void MPIFORT_NAME(info_create_env)(MPI_Fint *info, MPI_Fint *ierror)
{
	MPI_Info info_c = MPI_INFO_NULL;

	DONE(MPIFORT_CALL(Info_create_env)(0, NULL, &info_c));
	*info = info_out(info_c);
}
MPIFORT_ALIAS(info_create_env, info_create_env_f08);

void MPIFORT_NAME(pcontrol)(const int *level)
{
	MPIFORT_CALL(Pcontrol)(*level);
}
MPIFORT_ALIAS(pcontrol, pcontrol_f08);

/* ---- requests --------------------------------------------------------------------------------------------- */

/* Ahead of a call that may free the request. */
static struct mpifort_kept *CALLS(request_before)(MPI_Request request)
{
	return mpifort_nkept ? mpifort_take(request) : NULL;
}

/* After a call that may have completed the operation of *request, whose handle is request_c then. */
static void CALLS(request_after)(MPI_Fint *request, MPI_Request before, MPI_Request request_c, struct mpifort_kept *kept,
				 bool complete)
{
	if (kept)
		mpifort_return(kept, request_c == MPI_REQUEST_NULL ? MPIFORT_FREED :
				     complete ? MPIFORT_COMPLETE : MPIFORT_ACTIVE);
	if (request_c != before)
		*request = request_out(request_c);
}

void MPIFORT_NAME(wait)(MPI_Fint *request, MPI_Fint *status, MPI_Fint *ierror)
{
	MPI_Request before = request_in(*request), r = before;
	struct mpifort_kept *kept = CALLS(request_before)(before);
	int rc = MPIFORT_CALL(Wait)(&r, status_in(status));

	CALLS(request_after)(request, before, r, kept, true);
	DONE(rc);
}
MPIFORT_ALIAS(wait, wait_f08);

void MPIFORT_NAME(test)(MPI_Fint *request, int *flag, MPI_Fint *status, MPI_Fint *ierror)
{
	MPI_Request before = request_in(*request), r = before;
	struct mpifort_kept *kept = CALLS(request_before)(before);
	int flag_c = 0, rc = MPIFORT_CALL(Test)(&r, &flag_c, status_in(status));

	CALLS(request_after)(request, before, r, kept, flag_c || r != before);
	*flag = flag_c ? MPIFORT_TRUE : MPIFORT_FALSE;
	DONE(rc);
}
MPIFORT_ALIAS(test, test_f08);

/* Requests of an array call as C handles: `before` are those that went in. kept: their entries, taken out of the table; NULL: the
 * table was empty, or the call frees no request. Short arrays take no memory. */
struct CALLS(array) {
	MPI_Request *before, *now;
	struct mpifort_kept **kept;
	size_t n;
	void *few[3 * 16];
};

static int CALLS(array_in)(struct CALLS(array) *a, int count, const MPI_Fint *requests)
{
	a->n = count > 0 ? (size_t)count : 0;
	a->kept = NULL;
	a->before = a->n > 16 ? malloc(3 * a->n * sizeof(*a->few)) : (MPI_Request *)a->few;
	if (!a->before)
		return mpifort_raise(MPI_ERR_NO_MEM);
	a->now = a->before + a->n;
	for (size_t i = 0; i < a->n; i++)
		a->now[i] = a->before[i] = request_in(requests[i]);
	return MPI_SUCCESS;
}

/* The same, for a call that may free the requests. */
static int CALLS(array_take)(struct CALLS(array) *a, int count, const MPI_Fint *requests)
{
	int rc = CALLS(array_in)(a, count, requests);

	if (rc || !mpifort_nkept)
		return rc;
	a->kept = (struct mpifort_kept **)(void *)(a->now + a->n);
	for (size_t i = 0; i < a->n; i++)
		a->kept[i] = a->before[i] == MPI_REQUEST_NULL ? NULL : mpifort_take(a->before[i]);
	return rc;
}

/* After an array call, for request i. complete: a persistent request has completed; any other request has if its handle was
 * freed. */
static void CALLS(array_after)(struct CALLS(array) *a, MPI_Fint *requests, int i, bool complete)
{
	struct mpifort_kept *kept = a->kept ? a->kept[i] : NULL;

	if (a->before[i] == MPI_REQUEST_NULL)
		return;
	CALLS(request_after)(&requests[i], a->before[i], a->now[i], kept, complete || a->now[i] == MPI_REQUEST_NULL);
	if (a->kept)
		a->kept[i] = NULL;
}

static void CALLS(array_done)(struct CALLS(array) *a)
{
	for (size_t i = 0; a->kept && i < a->n; i++)
		if (a->kept[i])
			mpifort_return(a->kept[i], MPIFORT_ACTIVE);
	if (a->before != (void *)a->few)
		free(a->before);
}

void MPIFORT_NAME(waitall)(const int *count, MPI_Fint *requests, MPI_Fint *statuses, MPI_Fint *ierror)
{
	struct CALLS(array) a;
	int rc = CALLS(array_take)(&a, *count, requests);

	if (!rc) {
		rc = MPIFORT_CALL(Waitall)(*count, a.now, status_in(statuses));
		for (int i = 0; i < *count; i++)
			CALLS(array_after)(&a, requests, i, rc == MPI_SUCCESS);
		CALLS(array_done)(&a);
	}
	DONE(rc);
}
MPIFORT_ALIAS(waitall, waitall_f08);

void MPIFORT_NAME(testall)(const int *count, MPI_Fint *requests, int *flag, MPI_Fint *statuses, MPI_Fint *ierror)
{
	struct CALLS(array) a;
	int flag_c = 0, rc = CALLS(array_take)(&a, *count, requests);

	if (!rc) {
		rc = MPIFORT_CALL(Testall)(*count, a.now, &flag_c, status_in(statuses));
		for (int i = 0; i < *count; i++)
			CALLS(array_after)(&a, requests, i, flag_c);
		CALLS(array_done)(&a);
	}
	*flag = flag_c ? MPIFORT_TRUE : MPIFORT_FALSE;
	DONE(rc);
}
MPIFORT_ALIAS(testall, testall_f08);

/* Fortran's indices begin with 1 (section 3.7.5). */
static int CALLS(index_out)(int index)
{
	return index == MPI_UNDEFINED ? index : index + 1;
}

void MPIFORT_NAME(waitany)(const int *count, MPI_Fint *requests, int *index, MPI_Fint *status, MPI_Fint *ierror)
{
	struct CALLS(array) a;
	int at = MPI_UNDEFINED, rc = CALLS(array_take)(&a, *count, requests);

	if (!rc) {
		rc = MPIFORT_CALL(Waitany)(*count, a.now, &at, status_in(status));
		if (at >= 0 && at < *count)
			CALLS(array_after)(&a, requests, at, true);
		*index = CALLS(index_out)(at);
		CALLS(array_done)(&a);
	}
	DONE(rc);
}
MPIFORT_ALIAS(waitany, waitany_f08);

void MPIFORT_NAME(testany)(const int *count, MPI_Fint *requests, int *index, int *flag, MPI_Fint *status, MPI_Fint *ierror)
{
	struct CALLS(array) a;
	int at = MPI_UNDEFINED, flag_c = 0, rc = CALLS(array_take)(&a, *count, requests);

	if (!rc) {
		rc = MPIFORT_CALL(Testany)(*count, a.now, &at, &flag_c, status_in(status));
		if (at >= 0 && at < *count)
			CALLS(array_after)(&a, requests, at, flag_c);
		*index = CALLS(index_out)(at);
		CALLS(array_done)(&a);
	}
	*flag = flag_c ? MPIFORT_TRUE : MPIFORT_FALSE;
	DONE(rc);
}
MPIFORT_ALIAS(testany, testany_f08);

static void CALLS(some_after)(struct CALLS(array) *a, int incount, MPI_Fint *requests, int outcount, int *indices)
{
	for (int i = 0; i < outcount; i++) {
		if (indices[i] >= 0 && indices[i] < incount)
			CALLS(array_after)(a, requests, indices[i], true);
		indices[i] = CALLS(index_out)(indices[i]);
	}
	CALLS(array_done)(a);
}

void MPIFORT_NAME(waitsome)(const int *incount, MPI_Fint *requests, int *outcount, int *indices, MPI_Fint *statuses,
			    MPI_Fint *ierror)
{
	struct CALLS(array) a;
	int n = MPI_UNDEFINED, rc = CALLS(array_take)(&a, *incount, requests);

	if (!rc) {
		rc = MPIFORT_CALL(Waitsome)(*incount, a.now, &n, indices, status_in(statuses));
		CALLS(some_after)(&a, *incount, requests, n, indices);
		*outcount = n;
	}
	DONE(rc);
}
MPIFORT_ALIAS(waitsome, waitsome_f08);

void MPIFORT_NAME(testsome)(const int *incount, MPI_Fint *requests, int *outcount, int *indices, MPI_Fint *statuses,
			    MPI_Fint *ierror)
{
	struct CALLS(array) a;
	int n = MPI_UNDEFINED, rc = CALLS(array_take)(&a, *incount, requests);

	if (!rc) {
		rc = MPIFORT_CALL(Testsome)(*incount, a.now, &n, indices, status_in(statuses));
		CALLS(some_after)(&a, *incount, requests, n, indices);
		*outcount = n;
	}
	DONE(rc);
}
MPIFORT_ALIAS(testsome, testsome_f08);

void MPIFORT_NAME(request_get_status)(const MPI_Fint *request, int *flag, MPI_Fint *status, MPI_Fint *ierror)
{
	MPI_Request r = request_in(*request);
	int flag_c = 0, rc = MPIFORT_CALL(Request_get_status)(r, &flag_c, status_in(status));

	if (flag_c && mpifort_nkept)
		mpifort_completed(r);
	*flag = flag_c ? MPIFORT_TRUE : MPIFORT_FALSE;
	DONE(rc);
}
MPIFORT_ALIAS(request_get_status, request_get_status_f08);

void MPIFORT_NAME(request_get_status_all)(const int *count, const MPI_Fint *requests, int *flag, MPI_Fint *statuses,
					  MPI_Fint *ierror)
{
	struct CALLS(array) a;
	int flag_c = 0, rc = CALLS(array_in)(&a, *count, requests);

	if (!rc) {
		rc = MPIFORT_CALL(Request_get_status_all)(*count, a.now, &flag_c, status_in(statuses));
		for (int i = 0; flag_c && mpifort_nkept && i < *count; i++)
			mpifort_completed(a.now[i]);
		CALLS(array_done)(&a);
	}
	*flag = flag_c ? MPIFORT_TRUE : MPIFORT_FALSE;
	DONE(rc);
}
MPIFORT_ALIAS(request_get_status_all, request_get_status_all_f08);

void MPIFORT_NAME(request_get_status_any)(const int *count, const MPI_Fint *requests, int *index, int *flag, MPI_Fint *status,
					  MPI_Fint *ierror)
{
	struct CALLS(array) a;
	int at = MPI_UNDEFINED, flag_c = 0, rc = CALLS(array_in)(&a, *count, requests);

	if (!rc) {
		rc = MPIFORT_CALL(Request_get_status_any)(*count, a.now, &at, &flag_c, status_in(status));
		if (flag_c && at >= 0 && mpifort_nkept)
			mpifort_completed(a.now[at]);
		*index = CALLS(index_out)(at);
		CALLS(array_done)(&a);
	}
	*flag = flag_c ? MPIFORT_TRUE : MPIFORT_FALSE;
	DONE(rc);
}
MPIFORT_ALIAS(request_get_status_any, request_get_status_any_f08);

void MPIFORT_NAME(request_get_status_some)(const int *incount, const MPI_Fint *requests, int *outcount, int *indices,
					   MPI_Fint *statuses, MPI_Fint *ierror)
{
	struct CALLS(array) a;
	int n = MPI_UNDEFINED, rc = CALLS(array_in)(&a, *incount, requests);

	if (!rc) {
		rc = MPIFORT_CALL(Request_get_status_some)(*incount, a.now, &n, indices, status_in(statuses));
		for (int i = 0; i < n; i++) {
			if (mpifort_nkept)
				mpifort_completed(a.now[indices[i]]);
			indices[i] = CALLS(index_out)(indices[i]);
		}
		*outcount = n;
		CALLS(array_done)(&a);
	}
	DONE(rc);
}
MPIFORT_ALIAS(request_get_status_some, request_get_status_some_f08);

void MPIFORT_NAME(start)(MPI_Fint *request, MPI_Fint *ierror)
{
	MPI_Request r = request_in(*request);

	if (mpifort_nkept)
		mpifort_started(r);
	DONE(MPIFORT_CALL(Start)(&r));
}
MPIFORT_ALIAS(start, start_f08);

void MPIFORT_NAME(startall)(const int *count, MPI_Fint *requests, MPI_Fint *ierror)
{
	struct CALLS(array) a;
	int rc = CALLS(array_in)(&a, *count, requests);

	if (!rc) {
		for (int i = 0; mpifort_nkept && i < *count; i++)
			mpifort_started(a.now[i]);
		rc = MPIFORT_CALL(Startall)(*count, a.now);
		CALLS(array_done)(&a);
	}
	DONE(rc);
}
MPIFORT_ALIAS(startall, startall_f08);

void MPIFORT_NAME(request_free)(MPI_Fint *request, MPI_Fint *ierror)
{
	MPI_Request r = request_in(*request);
	struct mpifort_kept *kept = CALLS(request_before)(r);
	int rc = MPIFORT_CALL(Request_free)(&r);

	if (kept && !rc)
		mpifort_freed(kept);
	else if (kept)
		mpifort_return(kept, MPIFORT_ACTIVE);
	*request = request_out(r);
	DONE(rc);
}
MPIFORT_ALIAS(request_free, request_free_f08);

/* The library may write the communicator when the operation completes. */
static void CALLS(idup)(const MPI_Fint *comm, const MPI_Fint *info, MPI_Fint *newcomm, MPI_Fint *request, MPI_Fint *ierror)
{
	MPI_Comm *c = malloc(sizeof(*c));
	MPI_Request r = MPI_REQUEST_NULL;
	int rc = c ? MPI_SUCCESS : mpifort_raise(MPI_ERR_NO_MEM);

	if (!rc) {
		*c = MPI_COMM_NULL;
		rc = info ? MPIFORT_CALL(Comm_idup_with_info)(comm_in(*comm), info_in(*info), c, &r) :
			    MPIFORT_CALL(Comm_idup)(comm_in(*comm), c, &r);
		*newcomm = comm_out(*c);
		mpifort_keep_all(rc, r, NULL, 0, false, NULL, NULL, c, newcomm);
	}
	*request = request_out(r);
	DONE(rc);
}

void MPIFORT_NAME(comm_idup)(const MPI_Fint *comm, MPI_Fint *newcomm, MPI_Fint *request, MPI_Fint *ierror)
{
	CALLS(idup)(comm, NULL, newcomm, request, ierror);
}
MPIFORT_ALIAS(comm_idup, comm_idup_f08);

void MPIFORT_NAME(comm_idup_with_info)(const MPI_Fint *comm, const MPI_Fint *info, MPI_Fint *newcomm, MPI_Fint *request,
				       MPI_Fint *ierror)
{
	CALLS(idup)(comm, info, newcomm, request, ierror);
}
MPIFORT_ALIAS(comm_idup_with_info, comm_idup_with_info_f08);

void MPIFORT_NAME(grequest_start)(mpifort_fn *query, mpifort_fn *free_fn, mpifort_fn *cancel, const MPI_Aint *extra_state,
				  MPI_Fint *request, MPI_Fint *ierror)
{
	struct mpifort_grequest *g = malloc(sizeof(*g));
	MPI_Request r = MPI_REQUEST_NULL;
	int rc = g ? MPI_SUCCESS : mpifort_raise(MPI_ERR_NO_MEM);

	if (!rc) {
		*g = (struct mpifort_grequest){ query, free_fn, cancel, *extra_state };
		rc = MPIFORT_CALL(Grequest_start)(mpifort_grequest_query, mpifort_grequest_free, mpifort_grequest_cancel, g, &r);
		if (rc)
			free(g);
	}
	*request = request_out(r);
	DONE(rc);
}
MPIFORT_ALIAS(grequest_start, grequest_start_f08);

/* ---- operations, error handlers, data representations ------------------------------------------------------- */

#define OP_CREATE(low, name)									\
void MPIFORT_NAME(low)(mpifort_fn *fn, const int *commute, MPI_Fint *op, MPI_Fint *ierror)	\
{												\
	__typeof__(mpifort_op_function##name(fn)) c = mpifort_op_function##name(fn);		\
	MPI_Op o = MPI_OP_NULL;									\
	int rc = c ? MPIFORT_CALL(Op_create##name)(c, *commute != MPIFORT_FALSE, &o) : MPI_ERR_NO_MEM;	\
												\
	*op = op_out(o);									\
	DONE(rc);										\
}												\
MPIFORT_ALIAS(low, low##_f08)
OP_CREATE(op_create, );
OP_CREATE(op_create_c, _c);

#define CREATE_ERRHANDLER(kind, Kind)								\
void MPIFORT_NAME(kind##_create_errhandler)(mpifort_fn *fn, MPI_Fint *errhandler, MPI_Fint *ierror)	\
{												\
	MPI_##Kind##_errhandler_function *c = mpifort_##kind##_errhandler(fn);			\
	MPI_Errhandler e = MPI_ERRHANDLER_NULL;							\
	int rc = c ? MPIFORT_CALL(Kind##_create_errhandler)(c, &e) : MPI_ERR_NO_MEM;		\
												\
	*errhandler = errhandler_out(e);							\
	DONE(rc);										\
}												\
MPIFORT_ALIAS(kind##_create_errhandler, kind##_create_errhandler_f08)
CREATE_ERRHANDLER(comm, Comm);
CREATE_ERRHANDLER(file, File);
CREATE_ERRHANDLER(session, Session);
CREATE_ERRHANDLER(win, Win);

#define REGISTER_DATAREP(low, suffix, null, NULL_FN)						\
void MPIFORT_NAME(low)(const char *datarep, mpifort_fn *read_fn, mpifort_fn *write_fn, mpifort_fn *extent,		\
	const MPI_Aint *extra_state, MPI_Fint *ierror, size_t datarep_len)			\
{												\
	struct mpifort_datarep *r = mpifort_datarep(read_fn, write_fn, extent, *extra_state);	\
	char *name = mpifort_string(datarep, datarep_len, false);				\
	int rc = r && name ? MPIFORT_CALL(Register_datarep##suffix)(name,			\
			read_fn == null ? NULL_FN : mpifort_datarep_read##suffix,		\
			write_fn == null ? NULL_FN : mpifort_datarep_write##suffix, mpifort_datarep_extent, r) : MPI_ERR_NO_MEM; \
												\
	free(name);										\
	DONE(rc);										\
}												\
MPIFORT_ALIAS(low, low##_f08)
REGISTER_DATAREP(register_datarep, , mpi_conversion_fn_null_, MPI_CONVERSION_FN_NULL);
REGISTER_DATAREP(register_datarep_c, _c, mpi_conversion_fn_null_c_, MPI_CONVERSION_FN_NULL_C);

/* ---- attributes ------------------------------------------------------------------------------------------- */

#define ATTRIBUTES(kind, Kind, type, convert)							\
void MPIFORT_NAME(kind##_create_keyval)(mpifort_fn *copy, mpifort_fn *del, int *keyval,	\
	const MPI_Aint *extra_state, MPI_Fint *ierror)						\
{												\
	struct mpifort_keyval *k = mpifort_keyval(copy, del, *extra_state, false);		\
												\
	DONE(k ? MPIFORT_CALL(Kind##_create_keyval)(mpifort_##kind##_copy, mpifort_##kind##_delete, keyval, k) :	\
	     MPI_ERR_NO_MEM);									\
}												\
MPIFORT_ALIAS(kind##_create_keyval, kind##_create_keyval_f08);					\
												\
void MPIFORT_NAME(kind##_set_attr)(const MPI_Fint *object, const int *keyval, const MPI_Aint *value, MPI_Fint *ierror)	\
{												\
	void *cell = mpifort_attribute(*value);							\
	int rc = cell ? MPIFORT_CALL(Kind##_set_attr)(convert##_in(*object), *keyval, cell) : MPI_ERR_NO_MEM;	\
												\
	if (rc)											\
		mpifort_attribute_free(cell);							\
	DONE(rc);										\
}												\
MPIFORT_ALIAS(kind##_set_attr, kind##_set_attr_f08);						\
												\
void MPIFORT_NAME(kind##_get_attr)(const MPI_Fint *object, const int *keyval, MPI_Aint *value, int *flag, MPI_Fint *ierror)	\
{												\
	void *attribute = NULL;									\
	int flag_c = 0, rc = MPIFORT_CALL(Kind##_get_attr)(convert##_in(*object), *keyval, &attribute, &flag_c);	\
												\
	if (!rc && flag_c)									\
		*value = mpifort_attribute_value(*keyval, attribute);				\
	if (!rc)										\
		*flag = flag_c ? MPIFORT_TRUE : MPIFORT_FALSE;					\
	DONE(rc);										\
}												\
MPIFORT_ALIAS(kind##_get_attr, kind##_get_attr_f08);						\
												\
void MPIFORT_NAME(kind##_delete_attr)(const MPI_Fint *object, const int *keyval, MPI_Fint *ierror)	\
{												\
	DONE(MPIFORT_CALL(Kind##_delete_attr)(convert##_in(*object), *keyval));			\
}												\
MPIFORT_ALIAS(kind##_delete_attr, kind##_delete_attr_f08)
ATTRIBUTES(comm, Comm, MPI_Comm, comm);
ATTRIBUTES(type, Type, MPI_Datatype, datatype);
ATTRIBUTES(win, Win, MPI_Win, win);

/* The deprecated ones, with INTEGER values (section 16.1): the same attributes. */
void MPIFORT_NAME(keyval_create)(mpifort_fn *copy, mpifort_fn *del, int *keyval, const int *extra_state, MPI_Fint *ierror)
{
	struct mpifort_keyval *k = mpifort_keyval(copy, del, *extra_state, true);

	DONE(k ? MPIFORT_CALL(Keyval_create)(mpifort_comm_copy, mpifort_comm_delete, keyval, k) : MPI_ERR_NO_MEM);
}

void MPIFORT_NAME(attr_put)(const MPI_Fint *comm, const int *keyval, const int *value, MPI_Fint *ierror)
{
	void *cell = mpifort_attribute(*value);
	int rc = cell ? MPIFORT_CALL(Attr_put)(comm_in(*comm), *keyval, cell) : MPI_ERR_NO_MEM;

	if (rc)
		mpifort_attribute_free(cell);
	DONE(rc);
}

void MPIFORT_NAME(attr_get)(const MPI_Fint *comm, const int *keyval, int *value, int *flag, MPI_Fint *ierror)
{
	void *attribute = NULL;
	int flag_c = 0, rc = MPIFORT_CALL(Attr_get)(comm_in(*comm), *keyval, &attribute, &flag_c);

	if (!rc && flag_c)
		*value = (int)mpifort_attribute_value(*keyval, attribute);
	if (!rc)
		*flag = flag_c ? MPIFORT_TRUE : MPIFORT_FALSE;
	DONE(rc);
}

void MPIFORT_NAME(attr_delete)(const MPI_Fint *comm, const int *keyval, MPI_Fint *ierror)
{
	DONE(MPIFORT_CALL(Attr_delete)(comm_in(*comm), *keyval));
}

/* ---- strings with lengths ----------------------------------------------------------------------------------- */

/* valuelen: characters, without C's terminating zero. */
void MPIFORT_NAME(info_get)(const MPI_Fint *info, const char *key, const int *valuelen, char *value, int *flag,
			    MPI_Fint *ierror, size_t key_len, size_t value_len)
{
	char *k = mpifort_string(key, key_len, true), *v = calloc(1, *valuelen > 0 ? (size_t)*valuelen + 1 : 1);
	int flag_c = 0,
	    rc = k && v ? MPIFORT_CALL(Info_get)(info_in(*info), k, *valuelen, v, &flag_c) : mpifort_raise(MPI_ERR_NO_MEM);

	if (flag_c)
		mpifort_string_out(value, value_len, v, rc);
	if (!rc)
		*flag = flag_c ? MPIFORT_TRUE : MPIFORT_FALSE;
	free(k);
	free(v);
	DONE(rc);
}
MPIFORT_ALIAS(info_get, info_get_f08);

/* buflen counts no terminating zero, on entry and on return. */
void MPIFORT_NAME(info_get_string)(const MPI_Fint *info, const char *key, int *buflen, char *value, int *flag, MPI_Fint *ierror,
				   size_t key_len, size_t value_len)
{
	int room = *buflen > 0 ? *buflen + 1 : 0, flag_c = 0, rc;
	char *k = mpifort_string(key, key_len, true), *v = calloc(1, (size_t)room + 1);

	rc = k && v ? MPIFORT_CALL(Info_get_string)(info_in(*info), k, &room, v, &flag_c) : mpifort_raise(MPI_ERR_NO_MEM);
	if (!rc && flag_c) {
		if (*buflen > 0)
			mpifort_string_out(value, value_len, v, rc);
		*buflen = room - 1;
	}
	if (!rc)
		*flag = flag_c ? MPIFORT_TRUE : MPIFORT_FALSE;
	free(k);
	free(v);
	DONE(rc);
}
MPIFORT_ALIAS(info_get_string, info_get_string_f08);

void MPIFORT_NAME(session_get_nth_pset)(const MPI_Fint *session, const MPI_Fint *info, const int *n, int *pset_len,
					char *pset_name, MPI_Fint *ierror, size_t pset_name_len)
{
	int room = *pset_len > 0 ? *pset_len + 1 : 0, rc;
	char *v = calloc(1, (size_t)room + 1);

	rc = v ? MPIFORT_CALL(Session_get_nth_pset)(session_in(*session), info_in(*info), *n, &room, v) :
		 mpifort_raise(MPI_ERR_NO_MEM);
	if (!rc) {
		if (*pset_len > 0)
			mpifort_string_out(pset_name, pset_name_len, v, rc);
		*pset_len = room - 1;
	}
	free(v);
	DONE(rc);
}
MPIFORT_ALIAS(session_get_nth_pset, session_get_nth_pset_f08);

/* ---- buffers ---------------------------------------------------------------------------------------------- */

/* mpi_f08 returns the address; in mpi and mpif.h buffer_addr is a buffer like any other, and is not changed. */
static void *CALLS(detached)(void *buffer)
{
	return buffer == MPI_BUFFER_AUTOMATIC ? &mpifort_sentinels_.buffer_automatic : buffer;
}

#define DETACH(low, size_type, function, formal, actual)					\
void MPIFORT_NAME(low##_f08)(formal void **buffer_addr, size_type *size, MPI_Fint *ierror)	\
{												\
	void *address = NULL;									\
	int rc = MPIFORT_CALL(function)(actual &address, size);					\
												\
	if (!rc)										\
		*buffer_addr = CALLS(detached)(address);					\
	DONE(rc);										\
}
#define DETACH_OLD(low, function, formal, actual)						\
void MPIFORT_NAME(low)(formal void *buffer_addr, int *size, MPI_Fint *ierror)			\
{												\
	void *address = NULL;									\
												\
	DONE(MPIFORT_CALL(function)(actual &address, size));					\
}												\
MPIFORT_ALIAS(low, low##_fts)
#define COMMA ,
DETACH(buffer_detach, int, Buffer_detach, , )
DETACH(buffer_detach_c, MPI_Count, Buffer_detach_c, , )
DETACH_OLD(buffer_detach, Buffer_detach, , );
DETACH(comm_detach_buffer, int, Comm_detach_buffer, const MPI_Fint *comm COMMA, comm_in(*comm) COMMA)
DETACH(comm_detach_buffer_c, MPI_Count, Comm_detach_buffer_c, const MPI_Fint *comm COMMA, comm_in(*comm) COMMA)
DETACH_OLD(comm_detach_buffer, Comm_detach_buffer, const MPI_Fint *comm COMMA, comm_in(*comm) COMMA);
DETACH(session_detach_buffer, int, Session_detach_buffer, const MPI_Fint *session COMMA, session_in(*session) COMMA)
DETACH(session_detach_buffer_c, MPI_Count, Session_detach_buffer_c, const MPI_Fint *session COMMA, session_in(*session) COMMA)
DETACH_OLD(session_detach_buffer, Session_detach_buffer, const MPI_Fint *session COMMA, session_in(*session) COMMA);

/* ---- processes -------------------------------------------------------------------------------------------- */

/* Arguments of a program: elements of an array, `step` characters apart, up to one that is blank. NULL: out of memory. */
static char **CALLS(arguments)(const char *argv, size_t len, size_t step)
{
	char **list = NULL, **more;

	for (size_t n = 0;; n++) {
		more = realloc(list, (n + 1) * sizeof(*list));
		if (!more)
			break;
		list = more;
		list[n] = mpifort_string(argv + n * step, len, false);
		if (list[n] && list[n][0])
			continue;
		free(list[n]);
		list[n] = NULL;
		return list;
	}
	free(list);
	mpifort_raise(MPI_ERR_NO_MEM);
	return NULL;
}

static void CALLS(arguments_free)(char **list)
{
	for (char **a = list; a && *a; a++)
		free(*a);
	free(list);
}

static int *CALLS(errcodes_in)(int *errcodes)
{
	return errcodes == &mpifort_sentinels_.errcodes_ignore ? MPI_ERRCODES_IGNORE : errcodes;
}

void MPIFORT_NAME(comm_spawn)(const char *command, const char *argv, const int *maxprocs, const MPI_Fint *info, const int *root,
			      const MPI_Fint *comm, MPI_Fint *intercomm, int *errcodes, MPI_Fint *ierror, size_t command_len,
			      size_t argv_len)
{
	bool here = mpifort_root(*root, *comm);
	char *c = here ? mpifort_string(command, command_len, false) : NULL;
	char **a = here && argv != &mpifort_sentinelc_.argv_null ? CALLS(arguments)(argv, argv_len, argv_len) : MPI_ARGV_NULL;
	MPI_Comm inter = MPI_COMM_NULL;
	int rc = MPIFORT_CALL(Comm_spawn)(c, a, *maxprocs, info_in(*info), *root, comm_in(*comm), &inter,
					  CALLS(errcodes_in)(errcodes));

	free(c);
	CALLS(arguments_free)(a);
	*intercomm = comm_out(inter);
	DONE(rc);
}
MPIFORT_ALIAS(comm_spawn, comm_spawn_f08);

/* array_of_argv(count, *): argument j of command i is element i + j * count. */
void MPIFORT_NAME(comm_spawn_multiple)(const int *count, const char *commands, const char *argvs, const int *maxprocs,
				       const MPI_Fint *infos, const int *root, const MPI_Fint *comm, MPI_Fint *intercomm,
				       int *errcodes, MPI_Fint *ierror, size_t commands_len, size_t argvs_len)
{
	size_t n = mpifort_root(*root, *comm) && *count > 0 ? (size_t)*count : 0;
	char **c = calloc(n + 1, sizeof(*c)), ***a = calloc(n + 1, sizeof(*a));
	bool arguments = argvs != &mpifort_sentinelc_.argvs_null;
	MPI_Info *i = NULL;
	MPI_Comm inter = MPI_COMM_NULL;
	int rc = c && a ? info_array(&i, infos, (MPI_Count)n) : mpifort_raise(MPI_ERR_NO_MEM);

	for (size_t k = 0; !rc && k < n; k++) {
		c[k] = mpifort_string(commands + k * commands_len, commands_len, false);
		if (arguments)
			a[k] = CALLS(arguments)(argvs + k * argvs_len, argvs_len, n * argvs_len);
	}
	if (!rc)
		rc = MPIFORT_CALL(Comm_spawn_multiple)(*count, c, arguments ? a : MPI_ARGVS_NULL, maxprocs, i, *root,
						       comm_in(*comm), &inter, CALLS(errcodes_in)(errcodes));
	for (size_t k = 0; c && a && k < n; k++) {
		free(c[k]);
		CALLS(arguments_free)(a[k]);
	}
	free(c);
	free(a);
	free(i);
	*intercomm = comm_out(inter);
	DONE(rc);
}
MPIFORT_ALIAS(comm_spawn_multiple, comm_spawn_multiple_f08);

/* ---- without a C function ----------------------------------------------------------------------------------- */

void MPIFORT_NAME(sizeof_f08ts)(const struct mpifort_desc *x, int *size, MPI_Fint *ierror)
{
	*size = (int)x->elem_len;
	DONE(MPI_SUCCESS);
}

void MPIFORT_NAME(f_sync_reg_f08ts)(const struct mpifort_desc *buf)
{
}

void MPIFORT_NAME(f_sync_reg)(void *buf)
{
}

void MPIFORT_NAME(status_f2f08)(const MPI_Status *from, MPI_Status *to, MPI_Fint *ierror)
{
	*to = *from;
	DONE(MPI_SUCCESS);
}
MPIFORT_ALIAS(status_f2f08, status_f2f08_f08);
MPIFORT_ALIAS(status_f2f08, status_f082f);
MPIFORT_ALIAS(status_f2f08, status_f082f_f08);
