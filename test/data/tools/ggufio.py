"""Reads and writes GGUF files for the tests: keys, tensor infos and raw bytes, nothing interpreted.

Own code rather than the gguf package, so that the tests need numpy only, and so that a file can be written wrong on purpose.
"""

import struct
from dataclasses import dataclass, field

import numpy as np

ALIGNMENT = 32
U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 = range(13)
SCALARS = {U8: "B", I8: "b", U16: "H", I16: "h", U32: "I", I32: "i", F32: "f", BOOL: "?", U64: "Q", I64: "q", F64: "d"}

# ggml type: number, values per block, bytes per block
TYPES = {
    "f32": (0, 1, 4), "f16": (1, 1, 2), "q4_0": (2, 32, 18), "q4_1": (3, 32, 20), "q5_0": (6, 32, 22), "q5_1": (7, 32, 24),
    "q8_0": (8, 32, 34), "q2_k": (10, 256, 84), "q3_k": (11, 256, 110), "q4_k": (12, 256, 144), "q5_k": (13, 256, 176),
    "q6_k": (14, 256, 210), "iq2_xxs": (16, 256, 66), "iq2_xs": (17, 256, 74), "iq3_xxs": (18, 256, 98), "iq1_s": (19, 256, 50),
    "iq4_nl": (20, 32, 18), "iq3_s": (21, 256, 110), "iq2_s": (22, 256, 82), "iq4_xs": (23, 256, 136), "iq1_m": (29, 256, 56),
    "bf16": (30, 1, 2), "tq1_0": (34, 256, 54), "tq2_0": (35, 256, 66), "mxfp4": (39, 32, 17), "nvfp4": (40, 64, 36),
    "q1_0": (41, 128, 18), "q2_0": (42, 64, 18),
}
NAMES = {number: name for name, (number, _, _) in TYPES.items()}


def byte_size(shape, kind):
    """Bytes of a tensor; shape as numpy has it, columns last."""
    _, block, size = TYPES[kind]
    if shape[-1] % block:
        raise ValueError(f"rows of {shape[-1]} are no multiple of {kind}'s block of {block}")
    return int(np.prod(shape, dtype=np.int64)) // block * size


@dataclass
class Tensor:
    name: str
    shape: tuple  # numpy's order: rows, columns
    kind: str
    data: object = None  # bytes or array; None: zeros, not stored (a hole in the file)

    @property
    def size(self):
        return byte_size(self.shape, self.kind)


@dataclass
class File:
    keys: dict = field(default_factory=dict)  # name -> encoded type and value
    tensors: list = field(default_factory=list)

    def __setitem__(self, name, value):
        self.keys[name] = encode(value)

    def add(self, name, shape, kind="f32", data=None):
        self.tensors.append(Tensor(name, tuple(shape), kind, data))

    def tensor(self, name):
        return next(t for t in self.tensors if t.name == name)

    def write(self, path, version=3):
        head = [struct.pack("<4sIQQ", b"GGUF", version, len(self.tensors), len(self.keys))]
        for name, value in self.keys.items():
            head += [text(name), value]
        offset, places = 0, []
        for t in self.tensors:
            dims = t.shape[::-1]
            head.append(text(t.name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, TYPES[t.kind][0], offset))
            places.append(offset)
            offset += -(-t.size // ALIGNMENT) * ALIGNMENT
        head = b"".join(head)
        start = -(-len(head) // ALIGNMENT) * ALIGNMENT
        with open(path, "wb") as out:
            out.write(head)
            for t, place in zip(self.tensors, places):
                if t.data is None:
                    continue
                raw = t.data.tobytes() if isinstance(t.data, np.ndarray) else bytes(t.data)
                if len(raw) != t.size:
                    raise ValueError(f"{t.name}: {len(raw)} bytes, expected {t.size}")
                out.seek(start + place)
                out.write(raw)
            out.truncate(start + offset)


def text(string):
    raw = string.encode() if isinstance(string, str) else string
    return struct.pack("<Q", len(raw)) + raw


def kind_of(value):
    if isinstance(value, (bool, np.bool_)):
        return BOOL
    if isinstance(value, (int, np.integer)):
        return U32 if value >= 0 else I32
    return STRING if isinstance(value, (str, bytes)) else F32


def encode(value):
    """Type and value as a key holds them: bool, int as u32, float as f32, str, or a list of one of these."""
    if isinstance(value, (list, tuple)):
        kind = kind_of(value[0]) if value else U32
        body = (text(v) if kind == STRING else struct.pack("<" + SCALARS[kind], v) for v in value)
        return struct.pack("<IIQ", ARRAY, kind, len(value)) + b"".join(body)
    kind = kind_of(value)
    return struct.pack("<I", kind) + (text(value) if kind == STRING else struct.pack("<" + SCALARS[kind], value))


def decode(raw):
    """The value of an encoded key, as Python has it."""
    (kind,) = struct.unpack_from("<I", raw)
    return Cursor(raw, 4).value(kind)


class Cursor:

    def __init__(self, raw, at=0):
        self.raw, self.at = raw, at

    def take(self, form):
        values = struct.unpack_from("<" + form, self.raw, self.at)
        self.at += struct.calcsize("<" + form)
        return values[0] if len(values) == 1 else values

    def string(self):
        size = self.take("Q")
        self.at += size
        return bytes(self.raw[self.at - size:self.at])

    def value(self, kind):
        if kind == STRING:
            return self.string().decode(errors="surrogateescape")
        if kind != ARRAY:
            return self.take(SCALARS[kind])
        inner, count = self.take("IQ")
        if inner in SCALARS:
            values = self.take(f"{count}{SCALARS[inner]}") if count else ()
            return list(values) if isinstance(values, tuple) else [values]
        return [self.value(inner) for _ in range(count)]


def read(path):
    """A File with every key and tensor; tensor data are views of the mapped file."""
    raw = np.memmap(path, np.uint8, mode="r")
    cursor = Cursor(raw)
    magic, _, tensors, keys = cursor.take("4sIQQ")
    if magic != b"GGUF":
        raise ValueError(f"{path} is no GGUF file")
    file, infos = File(), []
    for _ in range(keys):
        name = cursor.string().decode()
        start = cursor.at
        cursor.value(cursor.take("I"))
        file.keys[name] = bytes(raw[start:cursor.at])
    for _ in range(tensors):
        name, count = cursor.string().decode(), cursor.take("I")
        dims = [cursor.take("Q") for _ in range(count)]
        infos.append((name, tuple(dims[::-1]), *cursor.take("IQ")))
    start = -(-cursor.at // ALIGNMENT) * ALIGNMENT
    for name, shape, number, offset in infos:
        t = Tensor(name, shape, NAMES[number])
        t.data = raw[start + offset:start + offset + t.size]
        file.tensors.append(t)
    return file
