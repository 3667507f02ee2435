/// How fast this machine can multiply, by the instructions that a kind of weights needs.
#pragma once

#include "runtime/device/cpu/ThreadTeam.h"
#include "runtime/module/PackedLayout.h"

#include <span>
#include <string>

namespace g4::device {

/// Multiplications per second that the team's threads reach together with nothing but the instructions that
/// compiler/targets/cpu needs per row of activations and block of weights: products, their sums, and what
/// makes scaled floats of these. Neither loads nor decoding, which several rows share. `layout`: of the
/// weights; null: floats, whatever the weights are. `features`: what the code variant in use needs, as it
/// lists them; the machine has them. 0 where g4 has no such loop. Takes 10 ms.
double contractionPeak(ThreadTeam &team, std::span<const std::string> features,
                       const module::PackedLayout *layout);

} // namespace g4::device
