"""A full disk is ENOSPC to the client, for every kind of write, and reading goes on."""

import errno
import sys

import nbd

PIECE = 256 << 10

h = nbd.NBD()
h.connect_uri(sys.argv[1])


def fill():
    for offset in range(0, h.get_size(), PIECE):
        h.pwrite(b"f" * PIECE, offset)
    sys.exit("the disk never filled up")


def refused(what):
    try:
        what()
        sys.exit("not refused")
    except nbd.Error as error:
        assert error.errnum == errno.ENOSPC, error


refused(fill)
last = h.get_size() - PIECE
refused(lambda: h.pwrite(b"g" * PIECE, last, nbd.CMD_FLAG_FUA))
refused(lambda: h.zero(PIECE, last, nbd.CMD_FLAG_NO_HOLE))
assert h.pread(PIECE, 0) == b"f" * PIECE
assert h.pread(PIECE, last) == bytes(PIECE)
h.trim(4 * PIECE, 0)
h.pwrite(b"h" * PIECE, 0)
assert h.pread(PIECE, 0) == b"h" * PIECE
h.flush()
h.shutdown()
