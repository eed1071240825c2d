"""Writes, zeroes and reads back within its region, and says each step before it takes it.

Its arguments: the URI, the region's start and length, the first serial of its writes, and a seed.
"""

import random
import sys

import nbd

OPERATIONS = 80

uri = sys.argv[1]
start, length, serial, seed = (int(word) for word in sys.argv[2:6])
dice = random.Random(seed)


def content(number, size):
    """Bytes that tell which write they are of and where in it they stand."""
    words = ((number << 32 | index).to_bytes(8, "big") for index in range(size // 8 + 1))
    return b"".join(words)[:size]


def say(line):
    print(line, flush=True)


h = nbd.NBD()
h.set_uri_allow_local_file(True)
h.connect_uri(uri)
for _ in range(OPERATIONS):
    at = dice.randrange(length)
    size = dice.randint(1, min(20_000, length - at))
    if dice.randrange(6) == 0:
        say(f"z {at} {size}")
        expected = bytes(size)
        h.zero(size, start + at)
    else:
        say(f"w {at} {size} {serial}")
        expected = content(serial, size)
        serial += 1
        h.pwrite(expected, start + at, dice.choice([0, 0, 0, nbd.CMD_FLAG_FUA]))
    say(".")
    if dice.randrange(3) == 0:
        assert h.pread(size, start + at) == expected, (at, size)
    if dice.randrange(10) == 0:
        h.flush()
h.shutdown()
