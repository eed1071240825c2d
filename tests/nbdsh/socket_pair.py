"""A server is started by its client, which is its standard input."""

import sys

import nbd

h = nbd.NBD()
h.connect_command([sys.argv[1], "serve", "--stdin", sys.argv[2]])
assert h.get_size() == 2 << 20
h.pwrite(b"socket pair " * 128, 4096)
h.flush()
h.shutdown()
