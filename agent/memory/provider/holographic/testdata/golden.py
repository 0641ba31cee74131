"""Computes golden.json: vectors by an implementation that shares nothing with the Go code.

Run: python3 golden.py > golden.json

An element is null where the sum of unit vectors nearly vanishes, so that rounding decides
its angle.
"""
import cmath
import hashlib
import json
import math
import struct

TURN = 2 * math.pi
DIM = 128


def atom(word, dim=DIM):
    out = []
    for block in range((dim + 15) // 16):
        digest = hashlib.sha256(("%s:%d" % (word, block)).encode("utf-8")).digest()
        out += struct.unpack("<16H", digest)
    return [v * TURN / 65536 for v in out[:dim]]


def add(a, b):
    return [None if x is None or y is None else (x + y) % TURN for x, y in zip(a, b)]


def mean(*vectors):
    out = []
    for column in zip(*vectors):
        if None in column:
            out.append(None)
            continue
        total = sum(cmath.exp(1j * x) for x in column)
        out.append(cmath.phase(total) % TURN if abs(total) > 1e-5 else None)
    return out


def text(s, dim=DIM):
    words = [w.strip(".,!?;:\"'()[]{}") for w in s.lower().split()]
    words = [w for w in words if w]
    return mean(*[atom(w, dim) for w in words]) if words else atom("__hrr_empty__", dim)


def fact(s, entities, dim=DIM):
    parts = [add(text(s, dim), atom("__hrr_role_content__", dim))]
    parts += [add(atom(e.lower(), dim), atom("__hrr_role_entity__", dim)) for e in entities]
    return mean(*parts)


def likeness(a, b):
    return sum(math.cos(x - y) for x, y in zip(a, b)) / len(a)


cases = [
    {"op": "atom", "text": t, "vector": atom(t)} for t in ["hello", "__hrr_empty__", "grüße", "日本"]
] + [
    {"op": "text", "text": t, "vector": text(t)}
    for t in ["", " .,! ", "Hello", "Ada prefers \"dark\" (roast) coffee.", "a b c d e f g h", "Straße ÄÖ 日本 日本"]
] + [
    {"op": "fact", "text": t, "entities": e, "vector": fact(t, e)}
    for t, e in [("Ada Lovelace uses vim", ["Ada Lovelace"]), ("Project Kite aka Falcon runs on Debian", ["Project Kite", "Falcon"]), ("nothing named", [])]
] + [
    {"op": "bind", "text": "one", "entities": ["two"], "vector": add(atom("one"), atom("two"))},
]
whole = atom("hello", 1024)
print(json.dumps({
    "dim": DIM,
    "cases": cases,
    "hello1024": hashlib.sha256(struct.pack("<1024d", *[v * (TURN / 65536) for v in [round(x * 65536 / TURN) for x in whole]])).hexdigest(),
    "similar": likeness(atom("one"), atom("two")),
    "same": likeness(atom("one"), atom("one")),
}, ensure_ascii=False))
