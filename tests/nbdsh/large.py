"""One request of 50 MB is written, and one of 50 MB reads it back."""

import hashlib
import random
import sys

import nbd

SIZE = 50_000_000
OFFSET = 777

h = nbd.NBD()
h.connect_uri(sys.argv[1])
data = random.Random(int(sys.argv[2])).randbytes(SIZE)
h.pwrite(data, OFFSET)
h.flush()
assert hashlib.sha256(h.pread(SIZE, OFFSET)).digest() == hashlib.sha256(data).digest()
assert h.pread(OFFSET, 0) == bytes(OFFSET)
h.shutdown()
