#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Names in pages and in comments lead somewhere: each file that a page names in backticks, or a comment of src, is in the tree; each
# function (`name(`) and each identifier with a prefix of this tree (hdl_, shca_, ...) stands in the sources. Old identifiers, in the
# last column of docs/glossary.md, are no names.
command -v python3 >/dev/null || { echo "no python3"; exit 77; }
exec python3 - "${srcdir:-$(dirname "$0")/../..}" <<'END'
import os, re, sys

top = sys.argv[1]
FOLDERS = ("src", "include", "tests", "bench", "docs", "examples", "python", "scripts", "m4")
MADE = {"src/fortran/names.checked", "bench/compare.out", "tests/mp/mpi_outputs.h", "mpi_outputs.h"}	# by make or by a command
OTHERS = {"mpi.h", "mpif.h", "driver.h", "memcheck.h", "cma.c"}	# of the build, of other projects
PATH = re.compile(r"(?<![\w./-])(?:%s)/[\w./*{}-]+" % "|".join(FOLDERS))
FILE = re.compile(r"(?<![\w./<>-])[a-z][\w/]*\.(?:c|h|sh|def)\b(?!\()")
NAME = re.compile(r"\b(?:hdl|shca|mpifort|rcm|HDL|SHCA)_\w+")
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
WORD = re.compile(r"[A-Za-z_]\w*")

ends, sources, pages = set(), [], []		# ends of paths; files with names; pages
for folder, folders, files in os.walk(top):
    folders[:] = [f for f in folders if not f.startswith((".", "build", "autom4te")) and f != "results"]
    for name in files:
        path = os.path.relpath(os.path.join(folder, name), top)
        parts = path.split("/")
        ends.update("/".join(parts[i:]) for i in range(len(parts)))
        if name.endswith(".md"):
            pages.append(path)
        elif parts[0] in FOLDERS and name.endswith((".c", ".h", ".def", ".in", ".sh", ".py", ".f90", ".cpp", ".S", ".mk", ".map")):
            sources.append(path)

def read(path):
    with open(os.path.join(top, path), errors="replace") as f:
        return f.read()

words, comments = set(), []
for path in sources:
    text = read(path)
    if path.endswith(".mk"):		# programs are named there, in words with underscores
        ends.update(re.findall(r"tests/[\w/]+", text))
    if path.endswith((".c", ".h", ".def", ".cpp")):
        if path.startswith("src/"):
            comments += [(path, text.count("\n", 0, m.start()) + 1, m.group()) for m in COMMENT.finditer(text)]
        text = COMMENT.sub(" ", text)
    words.update(WORD.findall(text))
prefixes = {w[:i + 1] for w in words for i, c in enumerate(w) if c == "_"}

bad = 0
def fail(path, line, text):
    global bad
    bad += 1
    print("FAILED: %s:%d: %s" % (path, line, text))

def missing(path, page):
    """A path with a folder of the tree, a program (its source has an ending) or a file of the page's folder"""
    path = path.rstrip("./")
    return not (any(c in path for c in "*{}") or "xxx" in path.lower() or path in MADE or any(path + e in ends for e in ("", ".c", ".sh", ".h", ".mk")) or
                os.path.exists(os.path.join(top, path)) or os.path.exists(os.path.join(top, os.path.dirname(page), path)))

def known(name):
    return name in words or name in prefixes or "xxx" in name.lower() or any(name.endswith(e) and name[:-len(e)] in words for e in ("s", "_c"))

n = 0
for page in pages:
    for number, line in enumerate(read(page).split("\n"), 1):
        cells = line.strip().strip("|").split("|")
        if page.endswith("glossary.md") and line.startswith("|") and len(cells) == 4:
            line = "|".join(cells[:3])
        for text in re.findall(r"`([^`]+)`", line):
            n += 1
            for path in PATH.findall(text):
                if missing(path, page):
                    fail(page, number, "%s: no such file" % path)
            if FILE.fullmatch(text) and missing(text, page) and os.path.basename(text) not in OTHERS:
                fail(page, number, "%s: no such file" % text)
            for name in re.findall(r"\b([A-Za-z_]\w{3,})\(", text):
                if not known(name) and not known("P" + name) and not (name.startswith("MPI_") and known(name[4:])):
                    fail(page, number, "%s(): the sources have no such function" % name)
            for name in NAME.findall(text):
                if not known(name):
                    fail(page, number, "%s: the sources have no such name" % name)
for path, line, text in comments:
    for name in FILE.findall(text):
        if missing(name, path) and os.path.basename(name) not in OTHERS and not name.startswith("linux/"):
            fail(path, line, "%s: no such file" % name)
    for name in NAME.findall(text):
        if not known(name):
            fail(path, line, "%s: the sources have no such name" % name)
if n < 2000 or len(comments) < 5000:
    sys.exit("FAILED: only %d names of pages and %d comments were understood" % (n, len(comments)))
sys.exit(1 if bad else 0)
END
