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
