# Server and client over vsock, in the clear and under TLS: what is written is read again, whole and
# in pieces, a client that disconnects in the middle harms no other, and the server stops in good order. The
# guest talks to itself (vsock_loopback); between machines the sockets are the same.
#: outboard
#: processors 1
#: timeout 200

modprobe vsock
modprobe vsock_loopback

dd if=/dev/urandom of=/tmp/image bs=1M count=24 2>/dev/null
cp /tmp/image /tmp/served
outboard tls init /tmp/tls >/dev/null

outboard serve a=/tmp/served --listen vsock:10809 >/tmp/said 2>/tmp/log &
server=$!
for _ in $(seq 100); do
    grep -q vsock /tmp/said && break
    sleep 0.1
done
# It says what a virtual machine writes; in the guest itself the loopback is 1.
grep -q '^nbd+vsock://2/a$' /tmp/said || { cat /tmp/said /tmp/log; exit 1; }

outboard ls nbd+vsock://1
outboard inspect nbd+vsock://1:10809/a
outboard copy nbd+vsock://1/a /tmp/copy
cmp /tmp/image /tmp/copy
# The other way, with another client that is killed in the middle of it.
dd if=/dev/urandom of=/tmp/other bs=1M count=24 2>/dev/null
outboard copy --force /tmp/other nbd+vsock://1/a &
killed=$!
sleep 0.3
kill -9 $killed || true
outboard copy --force --verify /tmp/other nbd+vsock://1/a
outboard serve 'b=nbd+vsock://1/a' --listen unix:/tmp/socket >/tmp/said-b 2>&1 &
behind=$!
for _ in $(seq 100); do
    test -S /tmp/socket && break
    sleep 0.1
done
outboard copy 'nbd+unix:///b?socket=/tmp/socket' /tmp/copy-b
cmp /tmp/other /tmp/copy-b
kill $behind
wait $behind
kill $server
wait $server
cmp /tmp/other /tmp/served

# Without a listener there is one clear line.
if outboard ls nbd+vsock://1:4444 2>/tmp/refused; then exit 1; fi
cat /tmp/refused
test "$(wc -l </tmp/refused)" = 1

outboard serve a=/tmp/served --listen vsock:4445 --tls /tmp/tls >/tmp/said 2>/tmp/log &
server=$!
for _ in $(seq 100); do
    grep -q vsock /tmp/said && break
    sleep 0.1
done
outboard copy --force 'nbds+vsock://1:4445/a?tls-certificates=/tmp/tls' /tmp/copy
cmp /tmp/other /tmp/copy
kill $server
wait $server
