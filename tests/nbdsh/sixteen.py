"""Sixteen connections see what each other wrote."""

import sys

import nbd

MIB = 1 << 20
COUNT = 16

handles = [nbd.NBD() for _ in range(COUNT)]
for handle in handles:
    handle.connect_uri(sys.argv[1])
for number, handle in enumerate(handles):
    handle.pwrite(bytes([number + 1]) * 65536, number * MIB)
handles[0].flush()
for handle in reversed(handles):
    for number in range(COUNT):
        assert handle.pread(65536, number * MIB) == bytes([number + 1]) * 65536
    handle.shutdown()
