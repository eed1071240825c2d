"""An image that lost its end: reads of what is gone fail, whatever their size; the rest goes on."""

import os
import sys

import nbd

MIB = 1 << 20


def connected():
    h = nbd.NBD()
    h.connect_uri(sys.argv[1])
    return h


first = connected()
assert first.pread(4096, 6 * MIB) != bytes(4096)
os.truncate(sys.argv[2], 4 * MIB + 512)
for count in (512, 4096, 64 << 10, 128 << 10, MIB):
    for offset in (4 * MIB, 6 * MIB):
        h = connected()
        if offset == 4 * MIB and count == 512:
            h.pread(count, offset)
            continue
        try:
            h.pread(count, offset)
            sys.exit("%d bytes at %d were read, which are not there" % (count, offset))
        except nbd.Error:
            pass
        h = connected()
        assert len(h.pread(count, 0)) == count
        h.shutdown()
