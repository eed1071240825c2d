"""Diskless machines that boot, each by libnbd: they replay what a Debian read of its root, each from an address of its own.

Its arguments: the port, the export, the trace, the number of machines, and within how many seconds they are turned on (0: at once, and each
reads as fast as it is answered). Every read is compared with that of the first machine, which boots before the others. Each machine writes
its number into a block that none reads, flushes, and reads it back behind its last read: another one's would be an overlay that two share.

Prints one line of JSON: reads, seconds, and percentiles of the latency in microseconds.
"""

import heapq
import json
import select
import socket
import sys
import time

import nbd

BLOCK = 4096
# Machines of a part of 127/8.
PER_NETWORK = 250
# Longest silence of all machines together, seconds.
SILENCE = 30

port, export, trace = int(sys.argv[1]), sys.argv[2], sys.argv[3]
machines, within = int(sys.argv[4]), float(sys.argv[5])


def trace_of(path):
    """Times in seconds, offsets and lengths in whole blocks."""
    reads = []
    with open(path, encoding="ascii") as lines:
        for line in lines:
            if line.startswith("#"):
                continue
            millis, offset, length = (int(word) for word in line.split())
            begin = offset * 1024 // BLOCK * BLOCK
            end = -(-(offset + length) * 1024 // BLOCK) * BLOCK
            reads.append((millis / 1000, begin, end - begin))
    return reads


def unread_block(reads):
    """The first block that no read has."""
    at = 0
    for _, begin, length in sorted(reads, key=lambda read: read[1]):
        if begin > at:
            break
        at = max(at, begin + length)
    return at


class Buffers:
    """Buffers of reads. libnbd's binding keeps each that a request was made with, so they are used again."""

    def __init__(self):
        self.free = {}

    def take(self, length):
        free = self.free.get(length)
        return free.pop() if free else nbd.Buffer(length)

    def put(self, length, buffer):
        self.free.setdefault(length, []).append(buffer)


class Machine:
    def __init__(self, number):
        self.number, self.done, self.cookie, self.buffer, self.sent = number, 0, None, None, 0
        stream = socket.socket()
        stream.bind((f"127.1.{number // PER_NETWORK + 1}.{number % PER_NETWORK + 1}", 0))
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        stream.connect(("127.0.0.1", port))
        self.nbd = nbd.NBD()
        self.nbd.set_export_name(export)
        self.nbd.connect_socket(stream.detach())
        self.nbd.pwrite(self.own(), own_block, nbd.CMD_FLAG_FUA)

    def own(self):
        return self.number.to_bytes(8, "big") * (BLOCK // 8)

    def request(self):
        _, begin, length = reads[self.done]
        self.buffer = buffers.take(length)
        self.sent = time.monotonic()
        self.cookie = self.nbd.aio_pread(self.buffer, begin)

    def receive(self):
        """Whether the read has ended; its data is compared."""
        self.nbd.aio_notify_read()
        if not self.nbd.aio_command_completed(self.cookie):
            return False
        latencies.append(time.monotonic() - self.sent)
        data = self.buffer.to_bytearray()
        assert data == golden[self.done], f"machine {self.number}, read {self.done}"
        buffers.put(len(data), self.buffer)
        self.done += 1
        return True

    def end(self):
        assert self.nbd.pread(BLOCK, own_block) == self.own(), f"machine {self.number}"
        self.nbd.shutdown()


buffers = Buffers()
latencies = []
reads = trace_of(trace)
own_block = unread_block(reads)
first = Machine(0)
golden = [first.nbd.pread(length, begin) for _, begin, length in reads]
first.end()

booting = {}
poll = select.epoll()
for number in range(1, machines + 1):
    machine = Machine(number)
    booting[machine.nbd.aio_get_fd()] = machine
    poll.register(machine.nbd.aio_get_fd(), select.EPOLLIN)


def due(machine):
    if within == 0:
        return 0
    return within * (machine.number - 1) / machines + reads[machine.done][0]


start = time.monotonic()
waiting = [(start + due(machine), machine.number, machine) for machine in booting.values()]
heapq.heapify(waiting)
while booting:
    wait = SILENCE
    while waiting:
        wait = waiting[0][0] - time.monotonic()
        if wait > 0:
            break
        heapq.heappop(waiting)[2].request()
        wait = SILENCE
    events = poll.poll(min(wait, SILENCE))
    assert events or wait < SILENCE, "no machine gets an answer"
    for fd, _ in events:
        machine = booting[fd]
        if not machine.receive():
            continue
        if machine.done < len(reads):
            heapq.heappush(waiting, (start + due(machine), machine.number, machine))
            continue
        poll.unregister(fd)
        del booting[fd]
        machine.end()
seconds = time.monotonic() - start

latencies.sort()
at = lambda part: latencies[min(int(len(latencies) * part), len(latencies) - 1)] * 1e6
print(
    json.dumps(
        {
            "reads": len(latencies),
            "seconds": seconds,
            "p50_us": at(0.5),
            "p99_us": at(0.99),
            "p999_us": at(0.999),
        }
    )
)
