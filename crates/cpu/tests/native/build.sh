#!/bin/sh
# Builds and runs the native tests of the host target: build.sh DIR [test].  CXX and CXXFLAGS are honoured; without CXXFLAGS, with
# AddressSanitizer where the compiler links it.  Objects newer than every source are kept.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
arch=$here/../../arch
include=${WARPWAVE_INCLUDE:-$here/../../../kernels/include}
out=$1
mkdir -p "$out"
cxx=${CXX:-c++}
if [ -z "${CXXFLAGS+set}" ]; then
  CXXFLAGS=
  echo 'int main() {}' >"$out/probe.cpp"
  if $cxx -fsanitize=address "$out/probe.cpp" -o "$out/probe" 2>/dev/null && "$out/probe"; then CXXFLAGS=-fsanitize=address; fi
fi
command="$cxx -std=c++20 -Wall -Wextra -Werror -O1 -g1 -fno-math-errno -fno-trapping-math -ffp-contract=off $CXXFLAGS -I$arch -I$include"
if [ "$(cat "$out/command" 2>/dev/null)" != "$command" ]; then rm -f "$out"/*.o; fi
echo "$command" >"$out/command"
for f in "$here"/*.cpp; do
  o=$out/$(basename "$f" .cpp).o
  if [ ! -e "$o" ] || [ -n "$(find "$here" "$arch" "$include" -newer "$o" -type f)" ]; then printf '%s\n' "-c $f -o $o"; fi
done | xargs -r -P 2 -L 1 $command
# shellcheck disable=SC2086
$cxx $CXXFLAGS "$out"/*.o -o "$out/native"
"$out/native" ${2:-}
