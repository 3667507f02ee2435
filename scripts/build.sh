#!/usr/bin/env bash
# Configures and builds g4. usage: scripts/build.sh [PRESET] [NINJA ARGUMENTS or TARGETS...]
# Presets (CMakePresets.json): release (default; into build/), runtime, asan, tsan (into build-<preset>/).
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

preset=${1:-release}
shift || true
configure "$preset"
ninja -C "$(folder "$preset")" -j "$jobs" "$@"
