/// The tile dialect: kernel bodies before a target is chosen. See Tile.td.
#pragma once

#include "dialects/gguf/GgufDialect.h"

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "dialects/tile/TileDialect.h.inc"
#include "dialects/tile/TileEnums.h.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/tile/TileAttrs.h.inc"
#define GET_TYPEDEF_CLASSES
#include "dialects/tile/TileTypes.h.inc"
#define GET_OP_CLASSES
#include "dialects/tile/TileOps.h.inc"

namespace g4::tile {
/// A decoded block of weights that are not floats: 16 x 32 codes, then f32 scales and, where the type has minima, f32
/// addends, sixteen for each sub-block. Byte 64 i + 4 r + j of the codes is row r's column 4 i + j.
constexpr int64_t kDecodedCodeBytes = 512, kDecodedStripBytes = 64;
/// Bytes of it: a slot of a panel.
int64_t decodedBytes(gguf::ElementType element);
} // namespace g4::tile
