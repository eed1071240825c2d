# What an admin does with the units, inside a booted systemd. Any step that fails ends it.
set -eu

step() { echo "== $*"; }

# 4 KiB that were written come back, through the server that listens on this machine.
round_trip() {
    head -c 4096 /dev/urandom >/tmp/sent
    truncate -s 64M /tmp/sent
    outboard copy --force /tmp/sent nbd://127.0.0.1/scratch
    outboard copy --force nbd://127.0.0.1/scratch /tmp/back
    cmp /tmp/sent /tmp/back
}

ip link set lo up
id outboard >/dev/null 2>&1 || useradd --system outboard
systemctl daemon-reload

step "the service starts, in its sandbox"
systemctl start outboard
systemctl is-active outboard
journalctl --unit outboard --output cat | grep "backend=io_uring"
round_trip

step "a reload adds an export and says nothing of what did not change"
printf '\n[[export]]\nname = "second"\ndisk = "memory(1M)"\n' >>/etc/outboard/outboard.toml
systemctl reload outboard
outboard ls nbd://127.0.0.1/ | grep second
! journalctl --unit outboard --output cat | grep "next start"

step "it stops, flushed, with status 0"
systemctl stop outboard
systemctl show outboard --property Result | grep "Result=success"

step "with the socket unit it starts with its first client"
sed -i '/^listen/d' /etc/outboard/outboard.toml
systemctl start outboard.socket
! systemctl is-active outboard
round_trip
systemctl is-active outboard

step "a server that is killed comes back"
kill -KILL "$(systemctl show outboard --property MainPID --value)"
sleep 3
systemctl is-active outboard
outboard ls nbd://127.0.0.1/ | grep scratch
systemctl stop outboard.socket outboard
