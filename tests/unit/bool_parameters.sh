#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# No function of src has two or more parameters of type bool (docs/style.md): a call f(true, false) cannot be read without the header.
# Pointers to bool are results, and count as none.
command -v python3 >/dev/null || { echo "no python3"; exit 77; }
exec python3 - "${srcdir:-$(dirname "$0")/../..}" <<'END'
import os, re, sys

top = sys.argv[1]
NOT_CODE = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
BOOL = re.compile(r"\s*(?:const\s+)?(?:bool|_Bool)(?:\s+const)?(?:\s+\w+)?\s*")

def lists(text):
    """Yields (offset, items) of each list in parentheses, of declarations, definitions and calls alike."""
    stack = []
    for i in (m.start() for m in re.finditer(r"[(),]", text)):
        if text[i] == "(":
            stack.append([i])
        elif stack:
            stack[-1].append(i)
            if text[i] == ")":
                at = stack.pop()
                yield at[0], [text[a + 1:b] for a, b in zip(at, at[1:])]

def bools(text):
    """Returns (bool parameters, [(line, name)] of the lists that have two or more of them)."""
    text = NOT_CODE.sub(lambda m: "\n" * m.group().count("\n") or " ", text)
    n, bad = 0, []
    for at, items in lists(text):
        k = sum(bool(BOOL.fullmatch(i)) for i in items)
        n += k
        if k > 1:
            name = re.findall(r"\w+", text[:at][-200:])
            bad.append((text.count("\n", 0, at) + 1, name[-1] if name else "?"))
    return n, bad

# the check can fail: of these the first three are refused
for text, refused in (("int f(int a, bool b, const bool c);", 1), ("static void g(void (*x)(bool, bool))\n{\n}", 1),
                      ("void h(bool a, /* , */\n\tint (*b)(int, int), bool c);", 1), ("int i(bool a, bool *b, int c);", 0),
                      ('int j(bool a); /* (bool a, bool b) */ char *k = "(bool a, bool b)";', 0)):
    if len(bools(text)[1]) != refused:
        sys.exit("FAILED: the check is wrong about %s" % text)

number, wrong = 0, 0
for folder, _, files in os.walk(os.path.join(top, "src")):
    for file in files:
        if not file.endswith((".c", ".h", ".def")):
            continue
        path = os.path.join(folder, file)
        with open(path, encoding="utf-8") as f:
            n, bad = bools(f.read())
        number += n
        for line, name in bad:
            wrong += 1
            print("FAILED: %s:%d: %s: two or more parameters are bool: make each an enum, or a set of flags" %
                  (os.path.relpath(path, top), line, name))
if number < 300:
    sys.exit("FAILED: only %d parameters of type bool were found" % number)
sys.exit(1 if wrong else 0)
END
