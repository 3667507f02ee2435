// The dialect and the attributes that other dialects use.
#ifndef G4_DIALECTS_GGUF_BASE_TD
#define G4_DIALECTS_GGUF_BASE_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/OpBase.td"

def Gguf_Dialect : Dialect {
  let name = "gguf";
  let cppNamespace = "::g4::gguf";
  let summary = "Weights of a GGUF file: their block formats and where their bytes are.";
  let description = [{
    A module names the files it was imported from in the attribute `gguf.files`, an array of paths; weights
    are symbols that say which bytes of which file they are. Nothing here holds data.
  }];
  let useDefaultTypePrinterParser = 1;
  let useDefaultAttributePrinterParser = 1;
}

class Gguf_Attr<string name, string mnem> : AttrDef<Gguf_Dialect, name> {
  let mnemonic = mnem;
}

def Gguf_PartAttr : Gguf_Attr<"Part", "part"> {
  let summary = "Some rows of a weight.";
  let description = [{
    Rows `[first, first + rows)` of `weight` when `stride` is 0. In a stack of experts, whose matrices lie one
    after the other, `stride` is the number of rows of one expert, and the part has the rows
    `[e * stride + first, e * stride + first + rows)` of each expert `e`.

    Constraints: (c1) `rows > 0` and `first >= 0`. (c2) `stride` is 0 or at least `first + rows`.
    ```mlir
    #gguf.part<@blk.0.attn_qkv.weight, first = 2048, rows = 256, stride = 0>
    ```
  }];
  let parameters = (ins "::mlir::FlatSymbolRefAttr":$weight, "int64_t":$first, "int64_t":$rows,
                        "int64_t":$stride);
  let assemblyFormat = "`<` $weight `,` struct($first, $rows, $stride) `>`";
  let genVerifyDecl = 1; // c1, c2
}

def Gguf_ExtentAttr : Gguf_Attr<"Extent", "extent"> {
  let summary = "A range of bytes of one of the module's files.";
  let description = [{
    `file` is an index into the module's `gguf.files`; `offset` and `size` are in bytes from the file's start.

    Constraints: (c1) `file >= 0`, `offset >= 0` and `size > 0`.
  }];
  let parameters = (ins "int64_t":$file, "int64_t":$offset, "int64_t":$size);
  let assemblyFormat = "`<` struct($file, $offset, $size) `>`";
  let genVerifyDecl = 1; // c1
}

#endif
