/* SPDX-License-Identifier: BSD-3-Clause */
/* Attributes (MPI-5.0 section 7.7): keys, and the stores of objects. */
#include "mpi/attr.h"
#include "mpi/leaks.h"

#include <stdlib.h>
#include <string.h>

struct keyval {
	enum hdl_attr_kind kind;
	int refs;			/* one for the handle, one for each attribute */
	int key;			/* the program's value for it */
	bool freed;			/* by the program; the key stays valid while an attribute has it */
	union hdl_attr_copy copy;
	union hdl_attr_del del;
	void *extra_state;
};

/* A key is KEY_FIRST + (generation << SLOT_BITS | slot), so a freed key stays invalid when its slot is reused. */
#define KEY_FIRST	0x1000
#define SLOT_BITS	20
#define GENERATIONS	1024
static struct slot {
	struct keyval *kv;
	unsigned generation;
	int next_free;
} *slots;
static int nslots, first_free = -1;

struct attr {
	struct keyval *kv;
	void *value;
};
struct hdl_attrs {
	int n, capacity;
	struct attr *attr;		/* in the order of setting */
};

static const char *const kind_name[] = { "communicators", "datatypes", "windows" };

/* ---- keys ---------------------------------------------------------------------------------------------- */

static bool slots_grow(void)
{
	int n = nslots ? 2 * nslots : 16;
	struct slot *s;

	if (n > 1 << SLOT_BITS || !(s = realloc(slots, (size_t)n * sizeof(*s))))
		return false;
	slots = s;
	for (int i = n - 1; i >= nslots; i--) {
		slots[i] = (struct slot){ .next_free = first_free };
		first_free = i;
	}
	nslots = n;
	return true;
}

static struct keyval *lookup(int key)
{
	int slot = (key - KEY_FIRST) & ((1 << SLOT_BITS) - 1);

	if (key < KEY_FIRST || slot >= nslots || !slots[slot].kv || slots[slot].kv->key != key)
		return NULL;
	return slots[slot].kv;
}

static void kv_put(struct keyval *kv)
{
	struct slot *s = &slots[(kv->key - KEY_FIRST) & ((1 << SLOT_BITS) - 1)];

	if (--kv->refs)
		return;
	s->kv = NULL;
	s->generation = (s->generation + 1) % GENERATIONS;
	s->next_free = first_free;
	first_free = (int)(s - slots);
	free(kv);
}

static int attr_no_memory(const char *what)
{
	hdl_reason_set("out of memory for %s", what);
	return MPI_ERR_NO_MEM;
}

/* Returns the key if valid and of this kind; NULL with hdl_reason_set. */
static struct keyval *kv_get(enum hdl_attr_kind kind, int key)
{
	struct keyval *kv = lookup(key);

	if (kv && kv->kind == kind)
		return kv;
	if (kv)
		hdl_reason_set("invalid keyval %d: it is a key for attributes of %s, not of %s", key, kind_name[kv->kind],
			       kind_name[kind]);
	else if (key == MPI_KEYVAL_INVALID)
		hdl_reason_set("invalid keyval: MPI_KEYVAL_INVALID");
	else if (key >= MPI_TAG_UB && key <= MPI_WIN_MODEL)
		hdl_reason_set("invalid keyval %d: a predefined attribute can only be read, and of its kind of object", key);
	else
		hdl_reason_set("invalid keyval %d: it is none, or was freed", key);
	return NULL;
}

int hdl_keyval_create(enum hdl_attr_kind kind, union hdl_attr_copy copy, union hdl_attr_del del, void *extra_state,
		      int *keyval)
{
	struct keyval *kv;
	struct slot *s;

	if (first_free < 0 && !slots_grow()) {
		if (nslots < 1 << SLOT_BITS)
			return attr_no_memory("attribute keys");
		hdl_reason_set("%d attribute keys exist; free unneeded ones with MPI_Comm_free_keyval", nslots);
		return MPI_ERR_OTHER;
	}
	kv = malloc(sizeof(*kv));
	if (!kv)
		return attr_no_memory("an attribute key");
	s = &slots[first_free];
	*kv = (struct keyval){ .kind = kind, .refs = 1, .copy = copy, .del = del, .extra_state = extra_state };
	kv->key = KEY_FIRST + (int)(s->generation << SLOT_BITS | (unsigned)first_free);
	s->kv = kv;
	first_free = s->next_free;
	*keyval = kv->key;
	return MPI_SUCCESS;
}

int hdl_keyval_free(enum hdl_attr_kind kind, int *keyval)
{
	struct keyval *kv = kv_get(kind, *keyval);

	if (kv && kv->freed) {
		hdl_reason_set("invalid keyval %d: it was freed, and attributes that have it go on", *keyval);
		kv = NULL;
	}
	if (!kv)
		return MPI_ERR_KEYVAL;
	kv->freed = true;
	kv_put(kv);
	*keyval = MPI_KEYVAL_INVALID;
	return MPI_SUCCESS;
}

void hdl_keyval_leaks(void)
{
	for (int i = 0; i < nslots; i++)
		if (slots[i].kv && !slots[i].kv->freed)
			hdl_leak("keyvals not freed", "for %s", kind_name[slots[i].kv->kind]);
}

void hdl_keyval_fini(void)
{
	for (int i = 0; i < nslots; i++)
		if (slots[i].kv && !slots[i].kv->freed)
			kv_put(slots[i].kv);
	free(slots);
	slots = NULL;
	nslots = 0;
	first_free = -1;
}

/* ---- the program's functions --------------------------------------------------------------------------- */

static bool copies(const struct keyval *kv)
{
	switch (kv->kind) {
	case HDL_ATTR_COMM: return kv->copy.comm != MPI_COMM_NULL_COPY_FN;
	case HDL_ATTR_TYPE: return kv->copy.type != MPI_TYPE_NULL_COPY_FN;
	default: return kv->copy.win != MPI_WIN_NULL_COPY_FN;
	}
}

static bool copies_value(const struct keyval *kv)
{
	switch (kv->kind) {
	case HDL_ATTR_COMM: return kv->copy.comm == MPI_COMM_DUP_FN;
	case HDL_ATTR_TYPE: return kv->copy.type == MPI_TYPE_DUP_FN;
	default: return kv->copy.win == MPI_WIN_DUP_FN;
	}
}

static int call_copy(const struct keyval *kv, void *handle, void *value, void *out, int *flag)
{
	switch (kv->kind) {
	case HDL_ATTR_COMM: return kv->copy.comm(handle, kv->key, kv->extra_state, value, out, flag);
	case HDL_ATTR_TYPE: return kv->copy.type(handle, kv->key, kv->extra_state, value, out, flag);
	default: return kv->copy.win(handle, kv->key, kv->extra_state, value, out, flag);
	}
}

static int call_delete(const struct keyval *kv, void *handle, void *value)
{
	switch (kv->kind) {
	case HDL_ATTR_COMM:
		return kv->del.comm == MPI_COMM_NULL_DELETE_FN ? 0 : kv->del.comm(handle, kv->key, value, kv->extra_state);
	case HDL_ATTR_TYPE:
		return kv->del.type == MPI_TYPE_NULL_DELETE_FN ? 0 : kv->del.type(handle, kv->key, value, kv->extra_state);
	default:
		return kv->del.win == MPI_WIN_NULL_DELETE_FN ? 0 : kv->del.win(handle, kv->key, value, kv->extra_state);
	}
}

unsigned hdl_attrs_run;

/* Call functions of the program, with the lock open: they may call MPI, and the store may have changed on return. Must: the
 * caller holds a reference to the key. */
static int run_copy(const struct keyval *kv, void *handle, void *value, void **out, int *flag)
{
	const char *call = hdl_call;
	const bool counted = !hdl_threads;
	unsigned depth;
	int rc;

	*flag = 0;
	if (!copies(kv))
		return MPI_SUCCESS;
	*out = value;
	*flag = 1;
	if (copies_value(kv))
		return MPI_SUCCESS;
	*flag = 0;
	depth = hdl_lock_open();
	hdl_attrs_run += counted;
	rc = call_copy(kv, handle, value, out, flag);
	hdl_attrs_run -= counted;
	hdl_lock_close(depth);
	hdl_call = call;
	if (rc)
		hdl_reason_set("the copy function of the attribute with keyval %d returned error code %d", kv->key, rc);
	return rc;
}

static int run_delete(const struct keyval *kv, void *handle, void *value)
{
	const char *call = hdl_call;
	const bool counted = !hdl_threads;
	unsigned depth;
	int rc;

	depth = hdl_lock_open();
	hdl_attrs_run += counted;
	rc = call_delete(kv, handle, value);
	hdl_attrs_run -= counted;
	hdl_lock_close(depth);
	hdl_call = call;
	if (rc)
		hdl_reason_set("the delete function of the attribute with keyval %d returned error code %d", kv->key, rc);
	return rc;
}

/* ---- stores -------------------------------------------------------------------------------------------- */

static struct attr *attr_find(const struct hdl_attrs *attrs, const struct keyval *kv)
{
	for (int i = attrs ? attrs->n : 0; i--;)
		if (attrs->attr[i].kv == kv)
			return &attrs->attr[i];
	return NULL;
}

static bool attr_make_room(struct hdl_attrs **attrs)
{
	struct hdl_attrs *a = *attrs;
	struct attr *p;

	if (!a && !(a = *attrs = calloc(1, sizeof(*a))))
		return false;
	if (a->n < a->capacity)
		return true;
	p = realloc(a->attr, (size_t)(a->capacity + 4) * 2 * sizeof(*p));
	if (!p)
		return false;
	a->attr = p;
	a->capacity = (a->capacity + 4) * 2;
	return true;
}

/* Takes over the reference to the key. Must: there is space. */
static void attr_append(struct hdl_attrs *attrs, struct keyval *kv, void *value)
{
	attrs->attr[attrs->n++] = (struct attr){ kv, value };
}

/* Removes an attribute. The caller gets it, with its reference. */
static struct attr attr_take_out(struct hdl_attrs *attrs, struct attr *a)
{
	struct attr taken = *a;

	memmove(a, a + 1, (size_t)(attrs->attr + --attrs->n - a) * sizeof(*a));
	return taken;
}

/* Removes the attribute before its delete function runs, so that the function is called once even if other threads look
 * meanwhile; puts it back if the function fails. */
static int remove_one(void *handle, struct hdl_attrs **attrs, struct attr *a)
{
	struct attr taken = attr_take_out(*attrs, a);
	int rc = run_delete(taken.kv, handle, taken.value);

	if (rc && !attr_find(*attrs, taken.kv) && attr_make_room(attrs))
		attr_append(*attrs, taken.kv, taken.value);
	else
		kv_put(taken.kv);
	return rc;
}

int hdl_attr_set(enum hdl_attr_kind kind, void *handle, struct hdl_attrs **attrs, int keyval, void *value)
{
	struct keyval *kv = kv_get(kind, keyval);
	struct attr *a;
	int rc = MPI_SUCCESS;

	if (!kv)
		return MPI_ERR_KEYVAL;
	kv->refs++;
	while (!rc && (a = attr_find(*attrs, kv)))
		rc = remove_one(handle, attrs, a);
	if (!rc && !attr_make_room(attrs))
		rc = attr_no_memory("an attribute");
	if (rc) {
		kv_put(kv);
		return rc;
	}
	attr_append(*attrs, kv, value);
	return MPI_SUCCESS;
}

int hdl_attr_delete(enum hdl_attr_kind kind, void *handle, struct hdl_attrs **attrs, int keyval)
{
	struct keyval *kv = kv_get(kind, keyval);
	struct attr *a = kv ? attr_find(*attrs, kv) : NULL;

	if (a)
		return remove_one(handle, attrs, a);
	if (kv)
		hdl_reason_set("invalid keyval %d: the object has no attribute with it", keyval);
	return MPI_ERR_KEYVAL;
}

int hdl_attr_get(enum hdl_attr_kind kind, const struct hdl_attrs *attrs, int keyval, void *value, int *flag)
{
	const struct keyval *kv = kv_get(kind, keyval);
	const struct attr *a;

	if (!kv)
		return MPI_ERR_KEYVAL;
	a = attr_find(attrs, kv);
	*flag = a != NULL;
	if (a)
		*(void **)value = a->value;
	return MPI_SUCCESS;
}

int hdl_attrs_delete(enum hdl_attr_kind kind, void *handle, struct hdl_attrs **attrs)
{
	int rc = MPI_SUCCESS;

	(void)kind;
	while (!rc && *attrs && (*attrs)->n)
		rc = remove_one(handle, attrs, &(*attrs)->attr[(*attrs)->n - 1]);
	if (!rc)
		hdl_attrs_drop(attrs);
	return rc;
}

void hdl_attrs_drop(struct hdl_attrs **attrs)
{
	struct hdl_attrs *a = *attrs;

	if (!a)
		return;
	while (a->n)
		kv_put(a->attr[--a->n].kv);
	free(a->attr);
	free(a);
	*attrs = NULL;
}

/* Copies the attributes that exist at the beginning: a copy function may change the original. */
int hdl_attrs_copy(enum hdl_attr_kind kind, void *handle, const struct hdl_attrs *attrs, void *new_handle,
		   struct hdl_attrs **copy)
{
	int n = attrs ? attrs->n : 0, rc = MPI_SUCCESS, flag;
	char why[320];
	struct attr *all;
	void *value;

	if (!n)
		return MPI_SUCCESS;
	all = malloc((size_t)n * sizeof(*all));
	if (!all)
		return attr_no_memory("copies of attributes");
	memcpy(all, attrs->attr, (size_t)n * sizeof(*all));
	for (int i = 0; i < n; i++)
		all[i].kv->refs++;
	for (int i = 0; i < n; i++) {
		if (!rc)
			rc = run_copy(all[i].kv, handle, all[i].value, &value, &flag);
		if (!rc && flag && !attr_make_room(copy))
			rc = attr_no_memory("a copy of an attribute");
		if (!rc && flag)
			attr_append(*copy, all[i].kv, value);
		else
			kv_put(all[i].kv);
	}
	free(all);
	if (!rc)
		return MPI_SUCCESS;
	snprintf(why, sizeof(why), "%s", hdl_reason_take());
	while (*copy && (*copy)->n)
		if (hdl_attrs_delete(kind, new_handle, copy)) {
			/* the first error is returned; attributes whose delete function fails are dropped */
			kv_put(attr_take_out(*copy, &(*copy)->attr[(*copy)->n - 1]).kv);
		}
	hdl_attrs_drop(copy);
	hdl_reason_set("%s", why);
	return rc;
}
