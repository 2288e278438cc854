# SPDX-License-Identifier: BSD-3-Clause
"""What each figure is judged by: the better peer, the machine's limit, the target."""

import re

HIGHER_IS_BETTER = re.compile(r"[MG]B/s|/ by hand|messages/s|operations/s|overlap %|cheap %|tested %|complete")


class Verdict:
    """A target's text and whether it is reached; reached is None where it cannot be judged."""

    def __init__(self, text="", reached=None):
        self.text = text
        self.reached = reached

    def word(self):
        """For the report's last column."""
        if not self.text:
            return ""
        return "not judged" if self.reached is None else "reached" if self.reached else "NOT REACHED"


def higher(test):
    """Whether more of it is better."""
    return bool(HIGHER_IS_BETTER.search(test))


def is_copy(size):
    """Whether a limit of this size is a bandwidth (else a time: hops, calls, copies of 8 bytes)."""
    return size is not None and size > 8


def better_peer(test, medians):
    """(name, value) of the best implementation beside Heddle, or (None, None)."""
    peers = {name: value for name, value in medians.items() if name != "heddle"}
    if not peers:
        return None, None
    name = (max if higher(test) else min)(peers, key=lambda n: peers[n])
    return name, peers[name]


def limit_of(test, size, limits, cpus):
    """What no software can beat here, in the test's unit; None where nothing says."""
    hop = limits.get(("line_hop_shared", None))
    both = limits.get(("copy_2cpu", size))
    if re.match(r"latency( \w+)? us", test) and hop is not None:
        # MB/s are bytes per us.
        return hop / 1e3 + (size / both if both else 0) if both or size < 4096 else None
    if test in ("bandwidth MB/s", "bi-bandwidth MB/s"):
        return both
    if test == "messages/s" and ("stream_16B_granule", None) in limits:
        return 1e9 / limits[("stream_16B_granule", None)]
    found = re.fullmatch(r"rma (put|get) \w+ us", test)
    if found:
        # One CPU copies.
        copy = limits.get(("copy_1cpu", size))
        return size / copy if copy else None
    if re.fullmatch(r"hop \w+ ns", test):
        return hop
    if re.fullmatch(r"offload .*: wait us", test) and hop is not None:
        # Wait must read a line that another CPU wrote.
        return hop / 1e3
    found = re.match(r"(barrier|allreduce) (\d+) us", test)
    if found and (size or 0) <= 8:
        ranks = int(found.group(2))
        if ranks <= cpus:
            return hop / 1e3 if hop is not None else None
        give = limits.get(("yield_1cpu", None))
        # Each rank needs the CPU once.
        return -(-ranks // cpus) * give / 1e3 if give is not None else None
    return None


def at_most(factor):
    """Judges "no more than factor times the better peer"."""
    def judge(mine, peer, _limit):
        return Verdict(f"<= {factor:g} x peer", None if peer is None else mine <= factor * peer)
    return judge


def at_least(factor):
    """Judges "at least factor times the better peer"."""
    def judge(mine, peer, _limit):
        return Verdict(f">= {factor:g} x peer", None if peer is None else mine >= factor * peer)
    return judge


def bandwidth(mine, peer, limit):
    """1.2 times the better peer, or 0.9 times what two CPUs can copy."""
    text = ">= 1.2 x peer" + (" or 0.9 x limit" if limit else "")
    if limit and mine >= 0.9 * limit:
        return Verdict(text, True)
    return Verdict(text, None if peer is None else mine >= 1.2 * peer)


def a_copy(mine, peer, limit):
    """No more than the better peer, and what memcpy takes (a tenth for the call)."""
    text = "<= 1 x peer" + (" and 1.1 x limit" if limit else "")
    if limit and mine > 1.1 * limit:
        return Verdict(text, False)
    return Verdict(text, None if peer is None else mine <= peer)


def bound(text, reached):
    """A target that is a number."""
    return lambda mine, _peer, _limit: Verdict(text, reached(mine))


# (test, sizes, judge); the first that fits counts.
TARGETS = (
    (r"latency us", lambda s: s <= 4096, at_most(0.7)),
    (r"(bi-)?bandwidth MB/s", lambda s: True, bandwidth),
    (r"messages/s", lambda s: s == 8, at_least(1.3)),
    (r"rma (put|get) allocate us", lambda s: s == 8, at_most(0.6)),
    (r"rma put allocate us", lambda s: s in (65536, 1048576), a_copy),
    (r"rma (put|get) shared us", lambda s: s == 8, at_most(1.2)),
    (r"rma (put|get) create us", lambda s: s == 8, at_most(1)),
    (r"rma put create us", lambda s: s in (65536, 1048576), at_most(0.8)),
    (r"rma (fetch_and_op|compare_and_swap) allocate us", lambda s: True, at_most(0.6)),
    (r"rma counter allocate 16 operations/s", lambda s: True, at_least(1)),
    (r"io collective \d+ write MB/s", lambda s: True, at_least(1.5)),
    (r"io \w+ \d+ (write|read) MB/s", lambda s: True, at_least(1)),
    (r"(un)?pack \w+ GB/s", lambda s: True, at_least(1)),
    (r"(un)?pack \w+ / by hand", lambda s: True, bound(">= 0.9", lambda v: v >= 0.9)),
    (r"[a-z_]+ 2 us", lambda s: True, at_most(0.7)),
    (r"[a-z_]+ [48] us", lambda s: True, at_most(0.6)),
    (r"launch 2 ms", lambda s: True, at_most(1)),
    (r"launch 64 ms", lambda s: True, at_most(0.6)),
    (r"PSS per rank 64 MiB", lambda s: True, at_most(1)),
    (r"system calls per message", lambda s: True, bound("0 (below 0.01)", lambda v: v < 0.01)),
    # The negative control: what it finds is no proof unless this is found, too.
    (r"offload .* by the host: tested %", lambda s: True, bound("< 90, it is not offloaded", lambda v: v < 90)),
    (r"offload .* by the host: .*", lambda s: True, None),
    (r"offload .*: tested %", lambda s: True, bound(">= 99", lambda v: v >= 99)),
    (r"offload .*: overlap %", lambda s: True, lambda mine, peer, _l: Verdict(
        "> both peers", None if peer is None else mine > peer)),
    (r"offload .*: complete", lambda s: True, bound("1", lambda v: v == 1)),
)


def verdict(test, size, mine, peer, limit):
    """The verdict on Heddle's median; an empty one where no target is set."""
    for pattern, fits, judge in TARGETS:
        if re.fullmatch(pattern, test) and fits(size):
            return judge(mine, peer, limit) if judge else Verdict()
    return Verdict()


def derived(medians_of, limits):
    """Targets that compare several figures of Heddle: (what, value, unit, Verdict)."""
    rows = []

    def mine(test, size=None):
        return medians_of(test, size).get("heddle")

    hop, eight = limits.get(("line_hop_shared", None)), mine("latency us", 8)
    if hop is not None and eight is not None:
        over = eight * 1e3 - hop
        # Below zero the machine was disturbed while the limit was taken: that proves nothing.
        reached = over <= 80 if over >= 0 else None
        rows.append(("latency of 8 B beyond a line hop", over, "ns", Verdict("<= 80", reached)))
    for form in ("wait_send", "wait_enable_send"):
        value = mine(f"hop {form} ns")
        if hop is not None and value is not None:
            most = 3 * hop + 200
            rows.append((f"one hop of a task list, {form}", value, "ns",
                         Verdict(f"<= {most:.0f} (3 line hops + 200)", value <= most)))
    base = mine("latency rc us", 8)
    for kind, factor in (("xrc", 1.3), ("dc", 1.3), ("ud", 2)):
        value = mine(f"latency {kind} us", 8)
        if base and value is not None:
            rows.append((f"latency of 8 B, {kind} / rc", value / base, "", Verdict(f"<= {factor:g}",
                                                                                value / base <= factor)))
    rows += one_sided(medians_of)
    return rows


def one_sided(medians_of):
    """A target that computes delays nobody; partitions beside the best that a peer has for them."""
    rows = []
    for flavour in ("allocate", "shared", "create", "dynamic"):
        for operation in ("put", "get", "accumulate", "fetch_and_op", "compare_and_swap"):
            waits = medians_of(f"rma {operation} {flavour}, target waits us", 8).get("heddle")
            computes = medians_of(f"rma {operation} {flavour}, target computes us", 8).get("heddle")
            if waits and computes is not None:
                # A fifth for what rounds differ by.
                rows.append((f"rma {operation} {flavour}: target computes / waits", computes / waits, "",
                             Verdict("<= 1.2", computes / waits <= 1.2)))
    mine = medians_of("partitions us", 1024).get("heddle")
    peers = [value for test in ("partitions us", "partitions by isend us")
             for name, value in medians_of(test, 1024).items() if name != "heddle"]
    if mine is not None:
        best = min(peers, default=None)
        rows.append(("32 partitions of 1 KiB / the peers' best way", mine / best if best else mine, "" if best else "us",
                     Verdict("<= 0.5", mine <= 0.5 * best if best else None)))
    return rows


def charged(medians_of, tests, limits):
    """Per offload row, beside the blocking call with all ranks together: Wait, the CPU charged, and the slowest start."""
    rows = []
    hop = limits.get(("line_hop_shared", None))
    least = (2 * hop + 100) / 1e3 if hop is not None else 0
    for test, size in tests:
        found = re.fullmatch(r"(offload .*): CPU us", test)
        if not found or "by the host" in test:
            continue

        def mine(name, row=found.group(1), bytes_=size):
            return medians_of(f"{row}: {name}", bytes_).get("heddle")

        what = f"{found.group(1)} {size or ''}".strip()
        block, wait, start = mine("block us"), mine("wait us"), mine("start us")
        if block and wait is not None:
            rows.append((f"{what}: Wait / blocking call, %", 100 * wait / block, "%",
                         Verdict(f"<= 5 or {least:.2f} us", wait <= max(0.05 * block, least))))
        if block and start is not None:
            rows.append((f"{what}: slowest start / blocking call", start / block, "", Verdict("<= 1", start <= block)))
        cpu, together = mine("CPU us"), mine("CPU blocking together us")
        if cpu is not None and together and together > 0:
            rows.append((f"{what}: CPU / blocking, all ranks together", cpu / together, "",
                         Verdict("<= 1.1", cpu / together <= 1.1)))
    return rows
