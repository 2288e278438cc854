# SPDX-License-Identifier: BSD-3-Clause
"""What is run, and what the output of each program means.

A task is one program with its options; running it gives values: {(test, size): number}. size is a number of bytes, or
None where there is none. Tests are named "program ranks" or as the report shall show them.
"""

import csv
import io
import os
import re
import tempfile

from . import impls

GROUPS = ("latency", "bw", "rma", "partitioned", "io", "datatype", "collectives", "offload", "launch", "memory", "strace")
KINDS = ("rc", "xrc", "dc", "ud")


class Failed(Exception):
    """A run that gave no figures; the text says why."""

    def __init__(self, why, hung=False):
        super().__init__(why)
        self.hung = hung


class Task:
    """One program for one or all implementations."""

    def __init__(self, group, name, ranks, program, arguments, read, **more):
        self.group = group
        self.name = name
        self.ranks = ranks
        self.program = program
        self.arguments = arguments
        self.read = read                                # Outcome -> {(test, size): value}
        self.bind = more.get("bind", True)
        self.heddle_only = more.get("heddle_only", False)
        self.env = more.get("env", {})
        self.rounds = more.get("rounds")                # at most so many: counts do not vary, and some runs are long
        self.statuses = more.get("statuses", (0,))      # of runs that give figures
        self.runner = more.get("runner")                # instead of starting it: (impl, context) -> values

    def run(self, impl, context):
        """Values of one run. Raises Failed."""
        if self.runner:
            return self.runner(impl, context)
        command = impl.command(self.ranks, context.cpus, self.bind) + \
            [os.path.join(impl.bindir, self.program), *self.arguments]
        # Two digits, OSU's way, would round the fast ones to tenths.
        command += ["--digits", "4"]
        if self.bind:
            command.append("--binding")
        outcome = impls.run(command, impl.environment(self.env), context.timeout)
        if outcome.status not in self.statuses:
            raise Failed(outcome.reason(), outcome.status is None)
        context.note_binding(impl, self.ranks, outcome.out)
        values = self.read(outcome)
        if not values:
            raise Failed(outcome.reason() or "no figures in its output")
        return values


class Context:
    """What all runs share."""

    def __init__(self, cpus, chosen, limits_program):
        self.cpus = cpus
        self.timeout = chosen.timeout
        self.quick = chosen.quick
        self.limits_program = limits_program
        self.hung = set()               # (impl name, task) that had no end in time
        self.bindings = {}              # (ranks, impl name): ["0", "1"]

    def note_binding(self, impl, ranks, out):
        """Remembers on which CPUs the ranks were, as they said themselves."""
        cpus = re.findall(r"^# CPUs of rank \d+: (\S*)", out, re.M)
        if cpus:
            self.bindings[(ranks, impl.name)] = cpus


# ---- what output means ---------------------------------------------------------------------------------------------

def sized(test, column=1):
    """Rows of "size value ..."; column counts from 0, the size."""
    def read(outcome):
        values = {}
        for line in outcome.out.splitlines():
            fields = line.split()
            if line.startswith("#") or len(fields) <= column or not fields[0].isdigit():
                continue
            values[(test, int(fields[0]))] = float(fields[column])
        return values
    return read


def unsized(test, column=0):
    """The one row of a program without sizes."""
    def read(outcome):
        for line in outcome.out.splitlines():
            fields = line.split()
            if not line.startswith("#") and len(fields) > column and re.fullmatch(r"[\d.]+", fields[column]):
                return {(test, None): float(fields[column])}
        return {}
    return read


def several(*readers):
    """All that any of them finds."""
    def read(outcome):
        values = {}
        for reader in readers:
            values.update(reader(outcome))
        return values
    return read


def wall(test):
    """Milliseconds from the launcher's start to its end."""
    return lambda outcome: {(test, None): outcome.seconds * 1e3}


def matched(test, pattern):
    """The number that the pattern finds."""
    def read(outcome):
        found = re.search(pattern, outcome.out, re.M)
        return {(test, None): float(found.group(1))} if found else {}
    return read


PACKING_COLUMNS = {"pack %s GB/s": 2, "pack %s / by hand": 4, "unpack %s GB/s": 5, "unpack %s / by hand": 7}


def packing(outcome):
    """hd_datatype's table: its rows begin with the layout's name."""
    values = {}
    for line in outcome.out.splitlines():
        fields = line.split()
        if not line.startswith("#") and len(fields) == 8:
            for name, column in PACKING_COLUMNS.items():
                values[(name % fields[0], int(fields[1]))] = float(fields[column])
    return values


OFFLOAD_COLUMNS = {
    "Block(us)": "block us", "BlkSkw(us)": "block skewed us", "Start(us)": "start us", "Wait(us)": "wait us",
    "Wait99(us)": "wait 99 us", "Null(us)": "wait of nothing us", "Wait/Bl(%)": "wait/block %",
    "Cheap(%)": "cheap %", "Tested(%)": "tested %", "Unready(%)": "unready %", "CPU(us)": "CPU us",
    "CPUblk(us)": "CPU blocking us", "CPUblk0(us)": "CPU blocking together us", "Overlap(%)": "overlap %",
}


def offload(label):
    """hd_offload's table: one test per operation and column, named by its header."""
    def read(outcome):
        values, header = {}, None
        for line in outcome.out.splitlines():
            fields = line.split()
            if line.startswith("# Operation"):
                header = fields[1:]
            elif header and not line.startswith("#") and len(fields) == len(header):
                row = dict(zip(header, fields))
                size = int(row["Size"]) or None
                if row["Counted"] == "WRONG":
                    raise Failed(f"{row['Operation']}, {row['Size']} bytes: the device counted other requests than the graph has")
                if row["Counted"] == "UNKNOWN":
                    raise Failed(f"{row['Operation']}, {row['Size']} bytes: the device's counters or the graph could not be had")
                for column, meaning in OFFLOAD_COLUMNS.items():
                    values[(f"offload {row['Operation']} {label}: {meaning}", size)] = float(row[column])
        return values
    return read


def stopped(outcome):
    """hd_offload --stop (exit status 1: not all): 1 where it was complete while the others were stopped."""
    values = {}
    for line in outcome.out.splitlines():
        found = re.match(r"(i\w+)\s+(\d+)\s+[\d.]+\s+(yes|NO)", line)
        if found:
            test = f"offload {found.group(1)}, others stopped: complete"
            values[(test, int(found.group(2)) or None)] = float(found.group(3) == "yes")
    return values


# ---- programs that are not started by a launcher, or not alone -----------------------------------------------------

def limits(quick):
    """The machine's limits: one program, no implementation."""
    def run(context):
        command = [context.limits_program, "-o", "csv", "-r", "3" if quick else "5", "-s", "0.25" if quick else "0.5"]
        outcome = impls.run(command, None, context.timeout)
        if outcome.status != 0:
            raise Failed(outcome.reason())
        values = {}
        for row in csv.DictReader(io.StringIO(outcome.out)):
            if row["median"]:
                values[(row["name"], int(row["bytes"]) if row["bytes"] else None)] = float(row["median"])
        return values
    return run


def hop(quick):
    """What a step of a task list costs: Heddle's device alone."""
    def run(impl, context):
        command = [os.path.join(impl.bindir, "hop"), "-o", "csv", "-r", "100" if quick else "1000"]
        outcome = impls.run(command, None, context.timeout)
        if outcome.status != 0:
            raise Failed(outcome.reason(), outcome.status is None)
        return {(f"hop {row['name']} ns", None): float(row["median"]) for row in csv.DictReader(io.StringIO(outcome.out))}
    return run


def traced_calls(impl, context, iterations):
    """System calls of all ranks of an 8-byte ping-pong, whole run."""
    with tempfile.TemporaryDirectory(prefix="heddle-compare-") as folder:
        script = 'exec strace -f -c -o "$0/calls.$$" "$@"'
        command = impl.command(2, context.cpus) + ["sh", "-c", script, folder,
                                                   os.path.join(impl.bindir, "hd_latency"), "-m", "8:8", "-x", "100",
                                                   "-i", str(iterations)]
        outcome = impls.run(command, impl.environment(), context.timeout)
        if outcome.status != 0:
            raise Failed("under strace: " + outcome.reason(), outcome.status is None)
        total = ranks = 0
        for name in os.listdir(folder):
            with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as table:
                for line in table:
                    fields = line.split()
                    # "100.00 seconds usecs/call calls [errors] total"
                    if len(fields) >= 5 and fields[-1] == "total":
                        total += int(fields[3])
                        ranks += 1
        if ranks != 2:
            raise Failed(f"strace wrote {ranks} tables for 2 ranks (is ptrace allowed here?)")
        return total


def strace(iterations):
    """System calls per message: the difference of a long and a short run, so that start and end do not count."""
    def run(impl, context):
        short = max(iterations // 100, 10)
        few = traced_calls(impl, context, short)
        many = traced_calls(impl, context, iterations)
        return {("system calls per message", 8): (many - few) / (2.0 * (iterations - short))}
    return run


# ---- the plan ------------------------------------------------------------------------------------------------------

def latency_tasks(quick):
    """Ping-pong at all sizes, and of each queue kind at 8 B."""
    loops = ["-i", "1000:100"] if quick else []
    tasks = [Task("latency", "latency", 2, "hd_latency", loops, sized("latency us"))]
    for kind in KINDS:
        tasks.append(Task("latency", f"latency of {kind}", 2, "hd_latency", ["-m", "8:8", *loops],
                          sized(f"latency {kind} us"), heddle_only=True, env={"HEDDLE_TRANSPORT": kind}))
    return tasks


def bw_tasks(quick):
    """Bandwidths. OSU's 100 windows of small messages last a millisecond, so more are asked for."""
    loops = ["-i", "200:10", "-x", "10:2"] if quick else ["-i", "1000:20", "-x", "50:2"]
    rate = ["-m", "8:8", "-i", "500" if quick else "5000", "-x", "50"]
    return [Task("bw", "bw", 2, "hd_bw", loops, sized("bandwidth MB/s")),
            Task("bw", "bibw", 2, "hd_bibw", loops, sized("bi-bandwidth MB/s")),
            Task("bw", "message rate", 2, "hd_mbw_mr", rate, sized("messages/s", 2))]


RMA_FLAVOURS = ("allocate", "shared", "create", "dynamic")
# Sizes of each operation; one run has all of them. A run is an operation on a flavour: what one cannot do takes no other figure along.
RMA_OPERATIONS = {"put": "8:1M", "get": "8:1M", "accumulate": "8:64K", "fetch_and_op": "8:8", "compare_and_swap": "8:8"}


def rma_tasks(quick):
    """One-sided operations by flavour, a target that computes; on allocated and created windows also by synchronization, bandwidth, and
    many origins on one word."""
    loops = ["-i", "1000:50"] if quick else []
    tasks = []
    for flavour in RMA_FLAVOURS:
        for operation, sizes in RMA_OPERATIONS.items():
            what = ["--flavour", flavour, "--operation", operation]
            tasks.append(Task("rma", f"rma {operation} {flavour}", 2, "hd_rma", [*what, "-m", sizes, *loops],
                              sized(f"rma {operation} {flavour} us")))
            # A peer that waits for the target needs a second for an operation.
            tasks.append(Task("rma", f"rma {operation} {flavour}, target computes", 2, "hd_rma",
                              ["--measure", "computing", *what, "-m", "8:8", *loops],
                              several(sized(f"rma {operation} {flavour}, target waits us"),
                                      sized(f"rma {operation} {flavour}, target computes us", 2)), rounds=2))
        if flavour in ("shared", "dynamic"):
            continue
        for sync in ("lock", "fence", "post"):
            tasks.append(Task("rma", f"rma put {flavour} {sync}", 2, "hd_rma",
                              ["--flavour", flavour, "--sync", sync, "-m", "8:8", *loops], sized(f"rma put {flavour} {sync} us")))
        for operation in ("put", "get"):
            what = ["--measure", "bw", "--flavour", flavour, "--operation", operation, "-i", "200:20" if quick else "2000:200"]
            tasks.append(Task("rma", f"rma {operation} {flavour} bandwidth", 2, "hd_rma", [*what, "-m", "8:1M"],
                              sized(f"rma {operation} {flavour} MB/s")))
            tasks.append(Task("rma", f"rma {operation} {flavour} rate", 2, "hd_rma", [*what, "-m", "8:8"],
                              sized(f"rma {operation} {flavour} operations/s", 2)))
    for flavour in ("allocate", "create"):
        for ranks in (2, 4, 8, 16):
            tasks.append(Task("rma", f"rma counter {flavour} {ranks}", ranks, "hd_rma",
                              ["--measure", "contention", "--operation", "fetch_and_op", "--flavour", flavour, *loops],
                              sized(f"rma counter {flavour} {ranks} operations/s")))
    return tasks


def partitioned_tasks(quick):
    """32 partitions of 1 KiB from 8 threads, beside as many messages."""
    loops = ["-i", "200"] if quick else ["-i", "2000"]
    return [Task("partitioned", "partitioned", 2, "hd_partitioned", loops,
                 several(sized("partitions by isend us"), sized("partitions us", 2)))]


IO_ACCESSES = {"contiguous": "4K:1M", "strided": "64:64K", "collective": "64:64K", "shared": "4K:64K"}


def io_tasks(quick, oversubscribed):
    """A file written and read by all ranks, in the folder for temporary files."""
    what = ["--total", "4M"] if quick else []
    path = os.path.join(tempfile.gettempdir(), f"hd_io.{os.getpid()}")
    return [Task("io", f"io {access} {ranks}", ranks, "hd_io", ["--access", access, "--file", path, "-m", sizes, *what],
                 several(sized(f"io {access} {ranks} write MB/s"), sized(f"io {access} {ranks} read MB/s", 2)))
            for ranks in (2, *oversubscribed[:1]) for access, sizes in IO_ACCESSES.items()]


def datatype_tasks(quick):
    """Packing beside loops written by hand, one rank."""
    sizes = ["-m", "16K:16K"] if quick else ["-m", "1K:4M"]
    return [Task("datatype", "packing", 1, "hd_datatype", sizes, packing)]


def collective_tasks(quick, oversubscribed):
    """Every collective with data at all sizes, on 2 ranks and where ranks outnumber cores; and the barrier."""
    loops = ["-i", "200:20"] if quick else []
    budget = ["-B", "0.02" if quick else "0.1"]
    tasks = []
    for ranks in (2, *oversubscribed):
        for name in impls.COLLECTIVES:
            data = name != "barrier"
            tasks.append(Task("collectives", f"{name} {ranks}", ranks, f"hd_{name}",
                              [*(["-m", "8:64K" if quick else "8:4M"] if data else []), *loops, *budget],
                              (sized if data else unsized)(f"{name} {ranks} us")))
    return tasks


OFFLOADED = "ibarrier,ibcast,ireduce,iallreduce,iallgather,ialltoall,igather,ireduce_scatter"


def offload_tasks(quick, oversubscribed):
    """Completion at Wait under skew, computing and sleeping meanwhile; and by the host executor, which must not pass."""
    loops = ["-i", "200", "-B", "0.2"] if quick else ["-i", "2000", "-B", "0.3"]
    sizes = ["--operation", OFFLOADED, "--sizes", "8,1024" if quick else "8,64,1024,8192,65536"]
    tasks = [Task("offload", "hop", 2, None, [], None, heddle_only=True, runner=hop(quick))]
    for ranks in oversubscribed:
        # 1: a row proves nothing, and says so; the others stand.
        tasks.append(Task("offload", f"offload {ranks}", ranks, "hd_offload", [*loops, *sizes], offload(str(ranks)), rounds=2,
                          statuses=(0, 1)))
    if oversubscribed:
        ranks = oversubscribed[0]
        tasks.append(Task("offload", f"offload {ranks} asleep", ranks, "hd_offload", [*loops, *sizes, "--while", "sleep"],
                          offload(f"{ranks} asleep"), rounds=2, statuses=(0, 1)))
        tasks.append(Task("offload", f"offload {ranks} by the host", ranks, "hd_offload",
                          [*loops, "--operation", "iallreduce,ibarrier", "--sizes", "1024"], offload(f"{ranks} by the host"),
                          rounds=2, heddle_only=True, env={"HEDDLE_COLL_EXECUTOR": "host"}, statuses=(0, 1)))
        tasks.append(Task("offload", "offload, others stopped", ranks, "hd_offload",
                          ["--stop", "--patience", "2", "--operation", OFFLOADED], stopped, rounds=1, statuses=(0, 1)))
    return tasks


def launch_tasks(quick):
    """Launcher's start to its end: init, barrier, finalize."""
    many = 16 if quick else 64
    return [Task("launch", f"launch {ranks}", ranks, "hd_init", [], wall(f"launch {ranks} ms"), bind=ranks == 2)
            for ranks in (2, many)]


def memory_tasks(quick):
    """PSS per rank after init and a barrier."""
    many = 16 if quick else 64
    return [Task("memory", f"memory {many}", many, "hd_init", ["--memory"],
                 matched(f"PSS per rank {many} MiB", r"^PSS .*avg: ([\d.]+) MiB"), bind=False, rounds=1)]


def strace_tasks(quick):
    """System calls of 10^5 ping-pongs."""
    return [Task("strace", "strace", 2, None, [], None, rounds=1, runner=strace(10000 if quick else 100000))]


def tasks_of(groups, quick, oversubscribed):
    """All tasks of the groups, in the order in which a round runs them."""
    tasks = []
    if "latency" in groups:
        tasks += latency_tasks(quick)
    if "bw" in groups:
        tasks += bw_tasks(quick)
    if "rma" in groups:
        tasks += rma_tasks(quick)
    if "partitioned" in groups:
        tasks += partitioned_tasks(quick)
    if "io" in groups:
        tasks += io_tasks(quick, oversubscribed)
    if "datatype" in groups:
        tasks += datatype_tasks(quick)
    if "collectives" in groups:
        tasks += collective_tasks(quick, oversubscribed)
    if "offload" in groups:
        tasks += offload_tasks(quick, oversubscribed)
    if "launch" in groups:
        tasks += launch_tasks(quick)
    if "memory" in groups:
        tasks += memory_tasks(quick)
    if "strace" in groups:
        tasks += strace_tasks(quick)
    return tasks
