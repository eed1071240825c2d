# What an admin does with the units, inside a booted systemd. Any step that fails ends it.
set -eu

step() { echo "== $*"; }

# Fails when the command succeeds: `set -e` does not see the status of one behind `!`.
refuse() {
    if "$@"; then
        echo "this succeeds, and must not: $*" >&2
        exit 1
    fi
}

# What a unit has logged since this boot: the Debian was booted before.
journal() {
    journalctl --boot --unit "$1" --output cat
}

# 4 KiB that were written come back, through the server that listens on this machine.
round_trip() {
    head -c 4096 /dev/urandom >/tmp/sent
    truncate -s 64M /tmp/sent
    outboard copy --force /tmp/sent nbd://127.0.0.1/scratch
    outboard copy --force nbd://127.0.0.1/scratch /tmp/back
    cmp /tmp/sent /tmp/back
}

# When this unit or target was up, microseconds since the boot.
up_at() {
    at=$(systemctl show "$1" --property ActiveEnterTimestampMonotonic --value)
    test "$at" -gt 0
    echo "$at"
}

# Before the boot: outboard-attach@early is enabled, its file has the mount; /etc/fstab has a line for the disk "table".
step "at boot disks are attached and mounted, in order"
# With `nofail` the line's mount may come after the target.
for unit in remote-fs.target mnt-table.mount; do
    for _ in $(seq 120); do
        if systemctl is-active --quiet "$unit"; then break; fi
        sleep 0.5
    done
done
for unit in remote-fs.target mnt-table.mount outboard-attach@early outboard-attach@table; do
    systemctl is-active "$unit"
done
test "$(cat /mnt/early/file)" = early
test "$(cat /mnt/table/file)" = table
test "$(up_at network-online.target)" -le "$(up_at outboard-attach@early)"
test "$(up_at outboard-attach@early)" -le "$(up_at remote-fs.target)"
test "$(up_at outboard-attach@table)" -le "$(up_at mnt-table.mount)"
systemctl disable --now outboard-attach@early
systemctl stop outboard-attach@table
refuse mountpoint -q /mnt/early
refuse mountpoint -q /mnt/table
test ! -e /run/outboard-attach
: >/etc/fstab

ip link set lo up
systemctl daemon-reload

step "the service starts, in its sandbox"
systemctl start outboard
systemctl is-active outboard
journal outboard | grep "backend=io_uring"
round_trip

step "a reload adds an export and says nothing of what did not change"
printf '\n[[export]]\nname = "second"\ndisk = "memory(1M)"\n' >>/etc/outboard/outboard.toml
systemctl reload outboard
outboard ls nbd://127.0.0.1/ | grep second
journal outboard >/tmp/journal
refuse grep "next start" /tmp/journal

step "it stops, flushed, with status 0"
systemctl stop outboard
systemctl show outboard --property Result | grep "Result=success"

step "with the socket unit it starts with its first client"
systemctl start outboard.socket
refuse systemctl is-active outboard
test "$(stat --format %U:%G:%a /run/outboard.sock)" = root:outboard:660
round_trip
systemctl is-active outboard

step "a server that is killed comes back"
kill -KILL "$(systemctl show outboard --property MainPID --value)"
sleep 3
systemctl is-active outboard
outboard ls nbd://127.0.0.1/ | grep scratch
systemctl stop outboard.socket outboard
test ! -e /run/outboard.sock

# The service runs as a user of its own, which could not read a key that is root's alone.
step "the service reads the certificates that root has made for it"
cp /etc/outboard/outboard.toml /tmp/outboard.toml
outboard tls init /etc/outboard/tls --name localhost
test "$(stat --format %U:%G:%a /etc/outboard/tls/server-key.pem)" = root:outboard:640
test "$(stat --format %U:%a /etc/outboard/tls/ca-key.pem)" = root:600
printf '\n[tls]\ndirectory = "/etc/outboard/tls"\n' >>/etc/outboard/outboard.toml
systemctl start outboard
outboard copy --force /tmp/sent "nbds://127.0.0.1/scratch?tls-certificates=/etc/outboard/tls"
refuse outboard copy --force /tmp/sent nbd://127.0.0.1/scratch
systemctl reload outboard
systemctl stop outboard
cp /tmp/outboard.toml /etc/outboard/outboard.toml

# The runtime directory of the service is removed and given to its user at each start and stop. Root's attachments
# were in it: `detach` said "not attached here" with the filesystem still mounted.
step "it is sandboxed: systemd-analyze gives at most 2.0"
systemd-analyze security --threshold=20 --no-pager outboard.service >/tmp/security || {
    cat /tmp/security
    exit 1
}
tail -n 1 /tmp/security

step "a server that hangs is killed by the watchdog, and comes back"
mkdir -p /run/systemd/system/outboard.service.d
printf '[Service]\nWatchdogSec=2\n' >/run/systemd/system/outboard.service.d/watchdog.conf
systemctl daemon-reload
systemctl start outboard
sleep 5
hangs=$(systemctl show outboard --property MainPID --value)
test "$(systemctl show outboard --property NRestarts --value)" = 0
kill -STOP "$hangs"
for _ in $(seq 60); do
    sleep 1
    new=$(systemctl show outboard --property MainPID --value)
    test "$new" = "$hangs" || ! systemctl is-active --quiet outboard || break
done
test "$new" != "$hangs"
systemctl is-active outboard
journal outboard | grep -i "watchdog timeout"
round_trip
systemctl stop outboard
rm -r /run/systemd/system/outboard.service.d
systemctl daemon-reload

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
refuse setpriv --reuid=outboard --regid=outboard --clear-groups touch /run/outboard-attach/mine
setpriv --reuid=outboard --regid=outboard --clear-groups env XDG_RUNTIME_DIR=/tmp outboard status |
    grep "1 attachment of root"
outboard detach --name kept
test ! -e /run/outboard-attach

# Its file names a server that is started after it: it waits for that, without a word of waiting in the file.
step "a disk of attach.d is attached and mounted by its unit, and detached by its stop"
mkdir -p /etc/outboard/attach.d /mnt/media
printf 'disk = "nbd://127.0.0.1:10811"\nmount = "/mnt/media"\nvia = "fuse"\n' >/etc/outboard/attach.d/media.toml
truncate -s 64M /var/lib/media.img
mkfs.ext4 -q /var/lib/media.img
systemctl start --no-block outboard-attach@media
sleep 2
outboard serve /var/lib/media.img --listen 127.0.0.1:10811 >/dev/null 2>&1 &
server=$!
systemctl start outboard-attach@media
test -b /run/outboard-attach/by-name/media
echo kept >/mnt/media/file
systemctl stop outboard-attach@media
refuse mountpoint -q /mnt/media
test ! -e /run/outboard-attach
systemctl start outboard-attach@media
test "$(cat /mnt/media/file)" = kept
systemctl stop outboard-attach@media

step "a line of fstab mounts it, and has it attached first"
printf 'disk = "nbd://127.0.0.1:10811"\nvia = "fuse"\nwait = 60\n' >/etc/outboard/attach.d/media.toml
cp /etc/fstab /tmp/fstab 2>/dev/null || : >/tmp/fstab
echo "/run/outboard-attach/by-name/media /mnt/media auto _netdev,nofail,x-systemd.requires=outboard-attach@media.service 0 0" \
    >>/etc/fstab
systemctl daemon-reload
systemctl start mnt-media.mount
systemctl is-active outboard-attach@media
test "$(cat /mnt/media/file)" = kept
# The mount ends before the disk does.
systemctl stop outboard-attach@media
refuse mountpoint -q /mnt/media
test ! -e /run/outboard-attach
cp /tmp/fstab /etc/fstab
systemctl daemon-reload
kill "$server"
wait "$server"

step "a file with a key that is not known attaches nothing and says so"
printf 'disk = "memory(1M)"\nmuont = "/mnt/media"\n' >/etc/outboard/attach.d/wrong.toml
refuse systemctl start outboard-attach@wrong
journal outboard-attach@wrong | grep "line 2, column 1: unknown key .muont."

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
