#!/bin/sh
# Makes ./configure from configure.ac.
set -eu
cd "$(dirname "$0")"
mkdir -p build-aux m4
exec autoreconf --install --warnings=all,no-obsolete
