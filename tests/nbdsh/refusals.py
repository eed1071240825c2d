"""What is past the end or not understood is refused, and the connection goes on."""

import errno
import sys

import nbd

MIB = 1 << 20
UNKNOWN_FLAG = 1 << 14

h = nbd.NBD()
h.connect_uri(sys.argv[1])
h.set_strict_mode(0)


def refused(what, errnum):
    try:
        what()
        sys.exit("not refused")
    except nbd.Error as error:
        assert error.errnum == errnum, error


refused(lambda: h.pread(512, MIB), errno.EINVAL)
refused(lambda: h.pread(1024, MIB - 512), errno.EINVAL)
refused(lambda: h.pwrite(b"x" * 1024, MIB - 512), errno.ENOSPC)
refused(lambda: h.pread(512, (1 << 63) - 512), errno.EINVAL)
refused(lambda: h.pwrite(b"x" * 512, 0, UNKNOWN_FLAG), errno.EINVAL)
h.pwrite(b"y" * 512, 0)
assert h.pread(512, 0) == b"y" * 512
h.shutdown()
