#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# No line of C in src and tests is wider than 130 columns, with a tab stop at every eighth one (docs/style.md).
command -v python3 >/dev/null || { echo "no python3"; exit 77; }
exec python3 - "${srcdir:-$(dirname "$0")/../..}" <<'END'
import os, sys

MOST = 130
top, bad, n = sys.argv[1], 0, 0
for part in ("src", "tests"):
    for folder, _, files in os.walk(os.path.join(top, part)):
        for name in files:
            if not name.endswith((".c", ".h")):
                continue
            path = os.path.join(folder, name)
            with open(path, encoding="utf-8") as f:
                for number, line in enumerate(f, 1):
                    n += 1
                    columns = len(line.rstrip("\n").expandtabs(8))
                    if columns > MOST:
                        bad += 1
                        print("FAILED: %s:%d: %d columns, at most %d" % (os.path.relpath(path, top), number, columns, MOST))
if n < 100000:
    sys.exit("FAILED: only %d lines were found" % n)
sys.exit(1 if bad else 0)
END
