"""Every command does what it says, at offsets of any kind."""

import sys

import nbd

MIB = 1 << 20

h = nbd.NBD()
h.connect_uri(sys.argv[1])
assert h.get_structured_replies_negotiated()
h.pwrite(b"a" * 4096, 4096, nbd.CMD_FLAG_FUA)
assert h.pread(8192, 2048)[2048:6144] == b"a" * 4096
h.zero(4096, 4096)
assert h.pread(4096, 4096) == bytes(4096)
h.zero(MIB, MIB, nbd.CMD_FLAG_NO_HOLE)
assert h.pread(MIB, MIB) == bytes(MIB)
h.trim(MIB, 2 * MIB)
h.cache(MIB, 0)
h.flush()
h.pwrite(b"z" * 513, 3 * MIB + 1)
assert h.pread(515, 3 * MIB)[1:514] == b"z" * 513
h.shutdown()
