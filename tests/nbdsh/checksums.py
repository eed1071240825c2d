"""A file goes up in pieces of odd sizes, in any order and many at once; what comes back has its checksum."""

import hashlib
import random
import sys

import nbd

SIZES = [1, 511, 512, 4095, 4096, 65536, 100_001, 1 << 20]

with open(sys.argv[2], "rb") as file:
    source = file.read()
dice = random.Random(11)
pieces = []
offset = 0
while offset < len(source):
    size = min(dice.choice(SIZES), len(source) - offset)
    pieces.append((offset, size))
    offset += size
dice.shuffle(pieces)

h = nbd.NBD()
h.set_uri_allow_local_file(True)
h.connect_uri(sys.argv[1])
assert h.get_size() == len(source)


def until_done(begin):
    """Begins every piece, at most 16 at once, and waits for all."""
    waiting = []
    for piece in pieces:
        waiting.append(begin(*piece))
        while len(waiting) >= 16:
            h.poll(-1)
            waiting = [cookie for cookie in waiting if not h.aio_command_completed(cookie)]
    while waiting:
        h.poll(-1)
        waiting = [cookie for cookie in waiting if not h.aio_command_completed(cookie)]


def write(offset, size):
    return h.aio_pwrite(nbd.Buffer.from_bytearray(bytearray(source[offset : offset + size])), offset)


until_done(write)
h.flush()
read = {}


def begin_read(offset, size):
    read[offset] = nbd.Buffer(size)
    return h.aio_pread(read[offset], offset)


until_done(begin_read)
found = b"".join(bytes(read[offset].to_bytearray()) for offset in sorted(read))
assert hashlib.sha256(found).digest() == hashlib.sha256(source).digest()
h.shutdown()
