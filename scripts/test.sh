#!/usr/bin/env bash
# Installs, builds and runs every test. Ends with ctest's summary. usage: scripts/test.sh [ctest arguments]
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

step "Packages"
scripts/setup.sh

step "Sanitizer build: runtime, readers, fuzz targets"
scripts/build.sh asan

step "Release build"
configure release -DG4_ASAN_BUILD="$root/$(folder asan)"
ninja -C build -j "$jobs"

step "Tests"
ctest --test-dir build -j "$jobs" --output-on-failure --no-tests=error "$@"
