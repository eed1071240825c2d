"""A read-only export says so, refuses writes and still reads."""

import errno
import sys

import nbd

h = nbd.NBD()
h.connect_uri(sys.argv[1])
assert h.is_read_only()
h.set_strict_mode(0)
try:
    h.pwrite(b"x" * 512, 0)
    sys.exit("a write was accepted")
except nbd.Error as error:
    assert error.errnum == errno.EPERM, error
assert len(h.pread(512, 0)) == 512
h.shutdown()
