#!/bin/sh
# Builds and runs the native tests of the host target: build.sh DIR [test].  CXX and CXXFLAGS are honoured.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
out=$1
mkdir -p "$out"
for f in "$here"/*.cpp; do
  ${CXX:-c++} -std=c++20 -Wall -Wextra -Werror -O1 -g1 -fno-math-errno -fno-trapping-math -ffp-contract=off ${CXXFLAGS:-} \
    -I"$here/../../arch" -I"$here/../../../kernels/include" -c "$f" -o "$out/$(basename "$f").o"
done
${CXX:-c++} ${CXXFLAGS:-} "$out"/*.cpp.o -o "$out/native"
"$out/native" ${2:-}
