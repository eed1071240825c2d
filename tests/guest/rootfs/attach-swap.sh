#!/busybox/sh
# attach-swap VIA: a mounted ext4 has dirty pages, its server is killed, and a server with another disk of the
# same size takes its address. The other disk gets no byte (the host compares its image), ext4 becomes
# read-only, and `status` names the disk that was expected and the one that was found.
set -eu
via=$1
test "$via" = kernel || modprobe -a fuse loop

# The other disk has a filesystem of its own, so that there is something to destroy.
device=$(outboard attach "nbd://10.0.2.2:$OTHER/" --via "$via")
mkfs.ext4 -q -F "$device"
outboard detach "$device"

device=$(outboard attach "nbd://10.0.2.2:$DISK/" --via "$via" --timeout 120)
mkfs.ext4 -q -F "$device"
mount "$device" /mnt
echo kept >/mnt/flushed
sync
dd if=/dev/urandom of=/mnt/dirty bs=64k count=64 2>/dev/null
echo "@swap DISK OTHER"

for _ in $(seq 60); do
    outboard status >/tmp/status 2>&1 || true
    grep -q "another disk" /tmp/status && break
    sleep 1
done
cat /tmp/status
grep -q "another disk" /tmp/status

# The kernel's writeback fails, the journal aborts.
if timeout 30 dd if=/dev/zero of=/mnt/more bs=4k count=1 conv=fsync 2>/tmp/said; then
    echo "a write with fsync succeeded without a disk"
    exit 1
fi
# ext4 aborted its journal: every change is refused (since Linux 6.1.66 without `ro` in /proc/mounts).
for _ in $(seq 30); do
    (echo again >/mnt/again) 2>/tmp/said || true
    grep -q "Read-only file system" /tmp/said && break
    sleep 1
done
cat /tmp/said
grep "Read-only file system" /tmp/said
umount /mnt || umount -l /mnt
if outboard detach "$device" --timeout 10 2>/tmp/said; then
    echo "a detach that lost data reported success"
    exit 1
fi
cat /tmp/said
grep -q lost /tmp/said
