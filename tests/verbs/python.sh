#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# python/heddle_verbs: the tutorial of docs/python.md, as printed there; then functions that the tutorial does not show.
. "${srcdir:-$(dirname "$0")/../..}/tests/verbs/common.sh"
/usr/bin/python3 -c 'import pyverbs.device' 2>/dev/null || skip "python3-pyverbs is not installed"
top=$(cd "${srcdir:-$(dirname "$0")/../..}" && pwd)
PYTHONPATH=$top/python
PYTHONDONTWRITEBYTECODE=1
export PYTHONPATH PYTHONDONTWRITEBYTECODE

awk '/^```/ { inside = $0 == "```python"; next } inside' "$top/docs/python.md" >"$tmp/tutorial.py"
[ -s "$tmp/tutorial.py" ] || fail "docs/python.md has no program"
timeout 120 "$shcarun" /usr/bin/python3 -W error::ResourceWarning "$tmp/tutorial.py" >"$tmp/tutorial.out" 2>&1 || fail "the tutorial ended with $?"
timeout 120 "$shcarun" /usr/bin/python3 "$top/tests/verbs/python_verbs.py" >"$tmp/verbs.out" 2>&1 || fail "python_verbs.py ended with $?"
tail -n 3 "$tmp/verbs.out"
exit 0
