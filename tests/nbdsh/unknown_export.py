"""An unknown export is refused, and the same negotiation finds a known one."""

import sys

import nbd

h = nbd.NBD()
h.set_opt_mode(True)
h.connect_uri(sys.argv[1])
h.set_export_name("unknown")
try:
    h.opt_go()
    sys.exit("an unknown export was accepted")
except nbd.Error:
    pass
h.set_export_name("known")
h.opt_go()
assert h.get_size() == 1 << 20
h.shutdown()
