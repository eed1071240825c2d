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

# A container has no devices but the least.
test -c /dev/fuse || mknod /dev/fuse c 10 229
test -c /dev/loop-control || mknod /dev/loop-control c 10 237
for number in $(seq 0 63); do
    test -b "/dev/loop$number" || mknod "/dev/loop$number" b 7 "$number"
done

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

# The runtime directory of the service is removed and given to its user at each start and stop. Root's attachments
# were in it: `detach` said "not attached here" with the filesystem still mounted.
step "what root has attached outlives the service's starts and stops"
mkdir -p /mnt/kept
outboard attach "memory(64M)" --name kept --mkfs ext4 --mount /mnt/kept
echo mine >/mnt/kept/file
for verb in start restart stop; do
    systemctl "$verb" outboard
    outboard status | grep /mnt/kept
    test "$(stat --format %U:%a /run/outboard-attach)" = root:755
    test "$(stat --format %U:%a /run/outboard-attach/attach-1)" = root:700
    test -b /run/outboard-attach/by-name/kept
    test "$(cat /mnt/kept/file)" = mine
done

step "the user of the service can change nothing there, and is told that root has something attached"
if setpriv --reuid=outboard --regid=outboard --clear-groups touch /run/outboard-attach/mine; then
    exit 1
fi
setpriv --reuid=outboard --regid=outboard --clear-groups env XDG_RUNTIME_DIR=/tmp outboard status |
    grep "1 attachment of root"
outboard detach --name kept
test ! -e /run/outboard-attach

# Data waits for a server that is dead when the machine is stopped: it must stop all the same.
step "a stop with an attachment whose server is dead"
outboard serve "memory(64M)" --listen 127.0.0.1:10810 >/dev/null 2>&1 &
server=$!
sleep 1
mkdir -p /mnt/dead
outboard attach nbd://127.0.0.1:10810 --via fuse --mkfs ext4 --mount /mnt/dead
head -c 4000000 /dev/urandom >/mnt/dead/unsaved
kill -KILL "$server"
date +%s >stopping
