"""A server is started on sockets handed over as systemd does it."""

import sys

import nbd

h = nbd.NBD()
h.connect_systemd_socket_activation([sys.argv[1], "serve", sys.argv[2]])
h.pwrite(b"handed over " * 128, 0)
h.flush()
h.shutdown()
