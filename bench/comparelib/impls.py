# SPDX-License-Identifier: BSD-3-Clause
"""MPI implementations: finding them, building the benchmarks for them, starting ranks."""

import os
import re
import shutil
import signal
import subprocess
import time

SHARED = ("bench.c", "options.c", "collective.c", "colls.c", "window.c", "device.c")
COLLECTIVES = ("barrier", "bcast", "gather", "scatter", "allgather", "alltoall", "reduce", "allreduce", "reduce_scatter", "scan",
               "gatherv", "scatterv", "allgatherv", "alltoallv")
# The collectives are one program, which looks at its name.
PROGRAMS = {name: name + ".c" for name in ("hd_latency", "hd_bw", "hd_bibw", "hd_mbw_mr", "hd_init", "hd_offload", "hd_datatype",
                                           "hd_rma", "hd_partitioned", "hd_io")}
PROGRAMS.update({f"hd_{i}{name}": "hd_collective.c" for name in COLLECTIVES for i in ("", "i")})
# The optimisation that Heddle's own build uses by default.
CFLAGS = ("-std=gnu11", "-O2", "-g")


class Unusable(Exception):
    """An implementation that cannot take part; the text says why."""


def text_of(command):
    """Standard output and error of a short command; empty when it cannot run."""
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=30, text=True,
                              errors="replace", check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout


class Impl:
    """One implementation. Ranks are bound by its own launcher, alike for all: see command()."""

    def __init__(self, name, mpicc, mpiexec, bindir):
        self.name = name
        self.mpicc = mpicc
        self.mpiexec = mpiexec
        self.bindir = bindir
        self.flavour = None
        self.version = ""

    def find(self):
        """Raises Unusable unless the launcher is there; finds out which kind it is."""
        if not shutil.which(self.mpiexec):
            raise Unusable(f"{self.mpiexec} is not installed")
        text = text_of([self.mpiexec, "--version"])
        release = re.search(r"(\d+\.\d+(\.\d+)?\S*)", text)
        self.version = release.group(1) if release else "?"
        if re.search(r"Open MPI|OpenRTE", text):
            self.flavour = "openmpi" if int(self.version.split(".")[0]) < 5 else "prrte"
        elif re.search(r"prte|PRRTE", text, re.I):
            self.flavour = "prrte"
        elif re.search(r"HYDRA|Intel\(R\) MPI", text):
            self.flavour = "hydra"
        elif re.search(r"^heddlerun", text, re.M):
            self.flavour = "heddle"
        else:
            self.flavour = "other"

    def build(self, sources):
        """Compiles the benchmarks with the implementation's wrapper, into bindir."""
        if not shutil.which(self.mpicc):
            raise Unusable(f"{self.mpicc} is not installed")
        os.makedirs(self.bindir, exist_ok=True)
        objects = []
        for source in SHARED:
            target = os.path.join(self.bindir, source[:-2] + ".o")
            self._compile([*CFLAGS, "-c", "-o", target, os.path.join(sources, source)])
            objects.append(target)
        for program, source in PROGRAMS.items():
            self._compile([*CFLAGS, "-o", os.path.join(self.bindir, program), os.path.join(sources, source), *objects])

    def _compile(self, arguments):
        done = subprocess.run([self.mpicc, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              errors="replace", check=False)
        if done.returncode:
            raise Unusable(f"{self.mpicc} {arguments[-1]} fails:\n{done.stdout.strip()}")

    def command(self, ranks, cpus, bind=True):
        """The launcher and its options. bind: rank r on core r modulo the number of cores."""
        over = ranks > cpus
        if self.flavour == "openmpi":
            options = ["--oversubscribe"] if over else []
            if bind:
                options += ["--map-by", "core", "--bind-to", "core:overload-allowed" if over else "core"]
            else:
                options += ["--bind-to", "none"]
        elif self.flavour == "prrte":
            if bind:
                options = ["--map-by", "core:OVERSUBSCRIBE" if over else "core",
                           "--bind-to", "core:overload-allowed" if over else "core"]
            else:
                options = ["--map-by", ":OVERSUBSCRIBE", "--bind-to", "none"]
        elif self.flavour == "hydra":
            options = ["-bind-to", "core" if bind else "none"]
        elif self.flavour == "heddle":
            options = ["--bind-to", "core" if bind else "none"]
        else:
            options = []
        return [self.mpiexec, "-n", str(ranks), *options]

    def environment(self, extra=None):
        """Environment of a run; launchers that refuse root are told that it is meant."""
        env = dict(os.environ)
        if os.geteuid() == 0:
            env.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                       PRTE_ALLOW_RUN_AS_ROOT="1", PRTE_ALLOW_RUN_AS_ROOT_CONFIRM="1")
        env.update(extra or {})
        return env


class Heddle(Impl):
    """Heddle from its build tree."""

    def __init__(self, build):
        super().__init__("heddle", None, os.path.join(build, "heddlerun"), os.path.join(build, "bench"))
        self.flavour = "heddle"

    def find(self):
        missing = [p for p in (self.mpiexec, *(os.path.join(self.bindir, p) for p in PROGRAMS))
                   if not os.access(p, os.X_OK)]
        if missing:
            raise Unusable("not built: " + ", ".join(missing[:3]) + (" …" if len(missing) > 3 else "") +
                           " (run make, or give --build DIR)")
        # The program's own word: it links the library of this tree.
        text = text_of([os.path.join(self.bindir, "hd_latency"), "--version"])
        release = re.search(r"(\d+\.\d+\S*)", text)
        self.version = release.group(1) if release else "?"

    def build(self, sources):
        """make did it."""


def peer_from(text, work):
    """NAME=MPICC,MPIEXEC as an Impl; ValueError with what is wrong."""
    found = re.fullmatch(r"([A-Za-z0-9_.+-]+)=([^,]+),([^,]+)", text)
    if not found:
        raise ValueError(f"--peer '{text}': NAME=MPICC,MPIEXEC is wanted")
    name, mpicc, mpiexec = found.groups()
    if name == "heddle":
        raise ValueError("--peer heddle: the name is taken")
    return Impl(name, mpicc, mpiexec, os.path.join(work, "peers", name))


class Outcome:
    """One run: status (None: the time was up), output, seconds on the wall."""

    def __init__(self, status, out, err, seconds):
        self.status = status
        self.out = out
        self.err = err
        self.seconds = seconds

    def reason(self):
        """Why it failed, in a line; empty when it did not."""
        if self.status == 0:
            return ""
        said = [line.strip() for line in (self.err + "\n" + self.out).splitlines()
                if line.strip() and not line.startswith(("---", "#"))]
        what = "no end in time" if self.status is None else f"exit status {self.status}"
        return what + (": " + said[0][:200] if said else "")


def run(command, env, timeout):
    """Runs a command in a session of its own; ends all of it when the time is up."""
    begin = time.perf_counter()
    try:
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                 text=True, errors="replace", env=env, start_new_session=True)
    except OSError as error:
        return Outcome(127, "", f"{command[0]}: {error.strerror}", 0.0)
    try:
        out, err = child.communicate(timeout=timeout)
        status = child.returncode
    except subprocess.TimeoutExpired:
        # A launcher that is asked ends its ranks; one that does not is ended with them.
        os.killpg(child.pid, signal.SIGTERM)
        try:
            out, err = child.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            out, err = child.communicate()
        status = None
    except BaseException:
        # Interrupted: leave nothing running.
        os.killpg(child.pid, signal.SIGTERM)
        try:
            child.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
        raise
    return Outcome(status, out, err, time.perf_counter() - begin)
