#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# No identifier of the "do not use" column of docs/glossary.md stands in the code of src: whole words, outside comments and strings.
command -v python3 >/dev/null || { echo "no python3"; exit 77; }
exec python3 - "${srcdir:-$(dirname "$0")/../..}" <<'END'
import os, re, sys

top = sys.argv[1]
NOT_CODE = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

names, prefixes = {}, {}
with open(os.path.join(top, "docs/glossary.md")) as f:
    for line in f:
        cells = [c.strip() for c in line.strip().strip("|").split("|")]
        if not line.startswith("|") or len(cells) != 4:
            continue
        for word in re.findall(r"`([^`]+)`", cells[3]):
            if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*\*?", word):
                sys.exit("FAILED: docs/glossary.md: %s is no identifier" % word)
            (prefixes if word.endswith("*") else names)[word.rstrip("*")] = cells[0]
if len(names) < 80 or len(prefixes) < 20:
    sys.exit("FAILED: docs/glossary.md: only %d identifiers and %d beginnings were understood" % (len(names), len(prefixes)))
first = tuple(prefixes)

bad = 0
for folder, _, files in os.walk(os.path.join(top, "src")):
    for name in files:
        if not name.endswith((".c", ".h", ".def")):
            continue
        path = os.path.join(folder, name)
        with open(path) as f:
            text = NOT_CODE.sub(lambda m: "\n" * m.group().count("\n") or " ", f.read())
        for number, line in enumerate(text.split("\n"), 1):
            for word in WORD.findall(line):
                term = names.get(word)
                if term is None and word.startswith(first):
                    term = next(t for p, t in prefixes.items() if word.startswith(p))
                if term is not None:
                    print("FAILED: %s:%d: %s: docs/glossary.md calls that: %s" % (os.path.relpath(path, top), number, word, term))
                    bad += 1
sys.exit(1 if bad else 0)
END
