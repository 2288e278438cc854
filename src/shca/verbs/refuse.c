/* SPDX-License-Identifier: BSD-3-Clause */
/* Reasons to refuse a call, which all files of the device share: the printed reason, a context of a forked parent, a failed
 * device, a thread without a slot, and features that the device lacks by SHCA_IDENTITY. Calls nothing of the other files. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "shca/verbs/control.h"

int shca_refuse(int err, const char *fmt, ...)
{
	if (shca_env_bool("SHCA_DEBUG")) {
		char text[512];
		va_list ap;
		va_start(ap, fmt);
		vsnprintf(text, sizeof text, fmt, ap);
		va_end(ap);
		fprintf(stderr, "libshca: %s: %s\n", text, strerror(err));
	}
	return err;
}

int shca_no_thread(const char *call)
{
	int err = errno;	/* of shca_thread_get */

	return shca_refuse(err, "%s: this thread has no slot in the fabric, and cannot wait for the object's users. Nothing was "
			   "changed; end other threads, or call from a thread that has posted or polled before", call);
}

bool shca_inherited(const struct ibv_context *ctx)
{
	if (!shca_context_of(ctx)->node->inherited)
		return false;
	errno = shca_refuse(ENODEV, "the context was opened before fork(): the child has to open the device itself");
	return true;
}

bool shca_unusable(const struct ibv_context *ctx)
{
	if (shca_inherited(ctx))
		return true;
	if (!shca_device_broken(shca_context_of(ctx)->m))
		return false;
	errno = shca_refuse(
		EIO,
		"the device has failed (IBV_EVENT_DEVICE_FATAL): destroy its objects and close it; a new one is there when "
		"all processes of the fabric have");
	return true;
}

/* ---- identity ----------------------------------------------------------------------------------------------- */

bool shca_is_connectx(void)
{
	const char *s = getenv("SHCA_IDENTITY");
	static _Atomic bool reported;

	if (!s || !*s || !strcmp(s, "shca"))
		return false;
	if (!strcmp(s, "connectx"))
		return true;
	if (!atomic_exchange(&reported, true))
		shca_error("SHCA_IDENTITY=%s is neither shca nor connectx: using shca", s);
	return false;
}

uint32_t shca_ports(void)
{
	const char *s = getenv("SHCA_PORTS");
	static _Atomic bool reported;

	if (!s || !*s || !strcmp(s, "1"))
		return 1;
	if (!strcmp(s, "2"))
		return 2;
	if (!atomic_exchange(&reported, true))
		shca_error("SHCA_PORTS=%s is neither 1 nor 2: using 1", s);
	return 1;
}

bool shca_is_ethernet(void)
{
	const char *s = getenv("SHCA_LINK");
	static _Atomic bool reported;

	if (!s || !*s || !strcmp(s, "infiniband"))
		return false;
	if (!strcmp(s, "ethernet"))
		return true;
	if (!atomic_exchange(&reported, true))
		shca_error("SHCA_LINK=%s is neither infiniband nor ethernet: using infiniband", s);
	return false;
}

bool shca_wants_huge(const char *variable)
{
	const char *s = shca_is_connectx() ? getenv(variable) : NULL;

	if (!s || strcmp(s, "HUGE"))
		return false;
	errno = shca_refuse(ENOMEM, "%s=HUGE: queues lie in the fabric's memory, which has no huge pages; PREFER_HUGE would do",
			    variable);
	return true;
}
