/* SPDX-License-Identifier: BSD-3-Clause */
/* Cancelling a dead requester's requests to proxies (proxy.c). */
#include "shca/fabric/mailbox.h"

struct shca_mailbox *shca_mailbox_of(const struct shca_member *m, uint32_t proc)
{
	return shca_at_checked(m, atomic_load(&m->procs[proc].mailbox), sizeof(struct shca_mailbox));
}

bool shca_mail_died(struct shca_member *m, uint64_t w)
{
	uint32_t requester = REQUESTER(w);
	uint32_t proc = requester ? shca_thread_owner(m, requester - 1) : 0;

	return proc && shca_proc_gone(m, proc - 1);
}

bool shca_proxy_cancel_at(struct shca_member *m, uint32_t proc, uint32_t dead)
{
	struct shca_mailbox *box = shca_mailbox_of(m, proc);
	bool all = true;

	for (uint32_t i = 0; box && i < SHCA_MAIL_SLOTS; i++) {
		struct mail_slot *s = &box->slot[i];
		uint64_t w = atomic_load(&s->word);
		uint32_t requester = REQUESTER(w);
		if (!requester || shca_thread_owner(m, requester - 1) != dead + 1)
			continue;
		SHCA_FAILPOINT(NULL, "mail-cancel", NULL, 0);
		/* the process slot and the thread slot may have another user by now */
		if (!shca_mail_died(m, w) || (STATE(w) == MAIL_RUNNING && !shca_proc_gone(m, proc)) ||
		    !atomic_compare_exchange_strong(&s->word, &w, nobodys(w)))
			all = false;
	}
	return all;
}

bool shca_proxy_cancel(struct shca_thread *thr, uint32_t dead)
{
	uint32_t high = atomic_load(&thr->m->hdr->proc_high);
	bool all = true;

	for (uint32_t p = 0; p < high; p++)
		if (p != dead && !shca_proxy_cancel_at(thr->m, p, dead))
			all = false;
	return all;
}
