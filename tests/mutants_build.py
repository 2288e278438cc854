# SPDX-License-Identifier: BSD-3-Clause
"""Programs for tests/mutants: built without make and libtool, since a mutant changes one file of a hundred.

What belongs to a program, and with which flags, is asked of the configured Makefile. An object is named after what it was made
of: compiler, flags and the text of every file that went into it. So nothing is compiled twice, whichever run, mutant or
program wants it, and no object of a mutant can be taken for one of the code as it is.

    Tree     the sources: a copy, so that nobody's editor changes them while the mutants run
    Kit      compiles and links programs of a tree
"""
import hashlib
import os
import re
import shutil
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

OUR_FLAGS = ["-O1", "-w"]	# in place of the user's CFLAGS; a mutant may leave a variable unused


class BuildError(Exception):
    pass


def digest(*parts):
    h = hashlib.sha256()
    for p in parts:
        h.update(p if isinstance(p, bytes) else p.encode())
        h.update(b"\0")
    return h.hexdigest()[:32]


def contents(path):
    with open(path, "rb") as f:
        return f.read()


class Makefile:
    """Variables of a configured build directory's Makefile, with the sources in ../tree."""

    def __init__(self, build, scratch):
        self.build = build
        self.path = os.path.join(scratch, "Makefile.copy")
        # under another name and without what it includes, so that make does not begin with remaking it
        with open(os.path.join(build, "Makefile")) as f, open(self.path, "w") as out:
            out.writelines(line for line in f if not line.startswith("include "))
        self.known = {}
        self.lock = threading.Lock()

    def ask(self, names):
        with self.lock:
            self.ask_make(names)

    def ask_make(self, names):
        names = [n for n in names if n not in self.known]
        if not names:
            return
        question = self.path + ".ask"
        with open(question, "w") as f:
            for n in names:
                f.write("$(info %s=$(%s))\n" % (n, n))
            f.write("mutants-ask: ; @:\n")
        p = subprocess.run(["make", "-rR", "-s", "-f", self.path, "-f", question, "top_srcdir=../tree", "srcdir=../tree", "mutants-ask"],
                           cwd=self.build, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if p.returncode:
            sys.exit("make does not tell the variables of %s: %s" % (os.path.join(self.build, "Makefile"), p.stderr[-500:]))
        for line in p.stdout.splitlines():
            name, _, value = line.partition("=")
            if name in names:
                self.known[name] = value.split()

    def of(self, target, kind, default=None):
        name = "%s_%s" % (re.sub(r"\W", "_", target), kind) if target else kind
        self.ask([name] + ([default] if default else []))
        return self.known[name] or (self.known[default] if default else [])


def make_test_headers(build):
    """Generates the headers that only tests include: `make all` does not."""
    with open(os.path.join(build, "Makefile")) as f:
        names = [n for line in re.findall(r"^nodist_tests_\w+_SOURCES = (.*)$", f.read(), re.M) for n in line.split() if n.endswith(".h")]
    if names:
        subprocess.run(["make", "-s"] + names, cwd=build, check=True, stdout=subprocess.DEVNULL)


class Tree:
    """where/tree has the sources, where/build the generated headers and what is linked."""

    def __init__(self, where, sources, generated):
        self.where = where
        self.lock = threading.Lock()	# held while a program of it is being made
        self.tree, self.build = os.path.join(where, "tree"), os.path.join(where, "build")
        for folder in (self.tree, self.build):
            shutil.rmtree(folder, ignore_errors=True)
            os.makedirs(folder)
        for name in ("src", "tests", "include"):
            shutil.copytree(os.path.join(sources, name), os.path.join(self.tree, name), symlinks=True,
                            ignore=shutil.ignore_patterns("*.o", "__pycache__"))
        shutil.copy2(os.path.join(generated, "config.h"), self.build)
        shutil.copytree(os.path.join(generated, "include"), os.path.join(self.build, "include"))
        for folder, _, files in os.walk(os.path.join(generated, "src")):	# what is generated beside the sources
            for name in files:
                if name.endswith((".c", ".h")):
                    shutil.copy2(os.path.join(folder, name), os.path.join(self.tree, os.path.relpath(folder, generated)))
        for folder, _, files in os.walk(os.path.join(generated, "tests")):
            for name in files:
                if name.endswith(".h"):
                    there = os.path.join(self.build, os.path.relpath(folder, generated))
                    os.makedirs(there, exist_ok=True)
                    shutil.copy2(os.path.join(folder, name), there)

    def path(self, name):
        return os.path.join(self.tree, name)


class Kit:
    def __init__(self, makefile, objects, jobs):
        self.make, self.objects = makefile, objects
        os.makedirs(objects, exist_ok=True)
        self.pool = ThreadPoolExecutor(jobs)
        self.lock = threading.Lock()
        self.made = {}		# object's name -> a lock held while it is being compiled
        self.needs = {}		# what sources include; no mutant changes that
        self.compiled = self.reused = 0

    # ---- objects ---------------------------------------------------------------------------------------------------

    def flags(self, target, pic):
        m = self.make
        return (m.of("", "CC") + m.of("", "DEFS") + ["-I."] + m.of(target, "CPPFLAGS", "AM_CPPFLAGS") + m.of("", "CPPFLAGS") +
                m.of(target, "CFLAGS", "AM_CFLAGS") + OUR_FLAGS + (["-fPIC"] if pic else []))

    def needed(self, tree, source, flags):
        """The files that go into an object, as names relative to tree.build."""
        p = subprocess.run(flags + ["-MM", "-MT", "x", "../tree/" + source], cwd=tree.build, stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, text=True)
        if p.returncode:
            raise BuildError(p.stderr)
        return p.stdout.replace("\\\n", " ").split()[1:]

    def compile(self, tree, source, flags):
        command = " ".join(flags + [source])
        needs = self.needs.get(command)
        if needs is None:
            needs = self.needs[command] = self.needed(tree, source, flags)
        name = digest(command, *[contents(os.path.join(tree.build, n)) for n in needs]) + ".o"
        path = os.path.join(self.objects, name)
        with self.lock:
            mine = self.made.setdefault(name, threading.Lock())
        with mine:
            if os.path.isfile(path):
                self.reused += 1
                return path
            scratch = path[:-2] + ".%d.new.o" % os.getpid()
            p = subprocess.run(flags + ["-c", "-o", scratch, "../tree/" + source], cwd=tree.build, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, errors="replace", stdin=subprocess.DEVNULL)
            if p.returncode:
                raise BuildError(p.stdout)
            os.rename(scratch, path)
            self.compiled += 1
        return path

    def compile_all(self, tree, sources, flags):
        return list(self.pool.map(lambda s: self.compile(tree, s, flags), sources))

    # ---- programs --------------------------------------------------------------------------------------------------

    def sources(self, target):
        named = self.make.of(target, "SOURCES") + self.make.of("nodist_" + target, "SOURCES")
        return [s for s in dict.fromkeys(named) if s.endswith(".c")]

    def run(self, tree, command):
        p = subprocess.run(command, cwd=tree.build, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
        if p.returncode:
            raise BuildError(p.stdout)

    def link(self, tree, output, command, inputs):
        """Links unless it was made of just this."""
        key = digest(" ".join(command), *inputs)
        path, note = os.path.join(tree.build, output), os.path.join(tree.build, output + ".key")
        if os.path.isfile(path) and os.path.isfile(note) and contents(note).decode() == key:
            return
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if os.path.lexists(path):
            os.unlink(path)	# what still runs of it keeps its own
        self.run(tree, command + ["-o", output])
        with open(note, "w") as f:
            f.write(key)

    def build(self, tree, program):
        """Brings program up to date in tree.build."""
        with tree.lock:
            self.make_program(tree, program)

    def make_program(self, tree, program):
        m = self.make
        objects, libraries = [], []
        words = list(m.of(program, "LDADD", "LDADD"))
        for word in words:	# a convenience library brings along what it is made of
            if word.endswith(".la") and word != "libshca.la":
                words += [w for w in m.of(word, "LIBADD") if w not in words]
        for word in words:
            if word == "libshca.la":
                flags = self.flags(word, True)
                parts = self.compile_all(tree, self.sources(word), flags)
                script = [f for f in m.of(word, "LDFLAGS") if "version-script" in f]
                mapped = [contents(os.path.join(tree.build, f.rpartition("=")[2])) for f in script]
                self.link(tree, "libshca.so.0", m.of("", "CC") + ["-shared", "-Wl,-soname,libshca.so.0"] + script + parts + ["-lpthread"],
                          [digest(*mapped)])
                libraries += ["libshca.so.0", "-Wl,-rpath,$ORIGIN/" + "../" * program.count("/")]
            elif word.endswith(".la"):
                objects += self.compile_all(tree, self.sources(word), self.flags(word, False))
            else:
                libraries.append(word)
        flags = self.flags(program, False)
        objects = self.compile_all(tree, self.sources(program), flags) + objects
        named = [f for f in flags if not f.startswith("-I")]
        where = named.index("-include") if "-include" in named else None
        if where is not None:
            del named[where:where + 2]
        wraps = [f for f in m.of(program, "LDFLAGS") if f.startswith("-Wl,--wrap")]
        self.link(tree, program, named + objects + libraries + wraps + m.of("", "LIBS"), [])

    def close(self):
        self.pool.shutdown()
