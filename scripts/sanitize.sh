#!/usr/bin/env bash
# What takes too long for every change: the runtime's tests under ThreadSanitizer, and long fuzzing of every reader.
# usage: scripts/sanitize.sh [SECONDS per fuzz target, default 600]
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
seconds=${1:-600}

scripts/setup.sh
step "ThreadSanitizer: runtime tests"
scripts/build.sh tsan
ctest --test-dir build-tsan --output-on-failure --no-tests=error -L unit

step "Fuzzing, $seconds s each"
scripts/build.sh asan
found=0
for target in build-asan/bin/*_fuzzer; do
  [ -x "$target" ] || continue
  found=$((found + 1))
  name=$(basename "$target" _fuzzer)
  step "$name"
  "$target" -max_total_time="$seconds" -max_len=65536 -rss_limit_mb=2048 -timeout=10 \
    -artifact_prefix="build-asan/$name-" "build-asan/corpus/$name"
done
[ "$found" -gt 0 ] || die "no fuzz targets in build-asan/bin"
