# A disk that is larger when its server returns: the device of the kernel's nbd grows with it, under a
# mounted filesystem, and what is written behind the old end is there.
#: serve DISK 64M
#: outboard
#: processors 1
#: timeout 200

device=$(outboard attach "nbd://10.0.2.2:$DISK/" --via kernel --name grows)
test "$(readlink /run/outboard-attach/by-name/grows)" = "$device"
mkfs.ext4 -q -F "$device"
mount "$device" /mnt
dd if=/dev/urandom of=/tmp/data bs=64k count=16 2>/dev/null
cp /tmp/data /mnt/before
sync
test "$(outboard refresh "$device")" = "64M"
echo "@kill DISK"
echo "@grow DISK 96M"
echo "@start DISK"
for _ in $(seq 60); do
    test "$(blockdev --getsize64 "$device")" = $((96 << 20)) && break
    sleep 1
done
test "$(blockdev --getsize64 "$device")" = $((96 << 20))
outboard refresh "$device"
dd if=/tmp/data of="$device" bs=64k seek=1280 conv=fsync 2>/dev/null
echo 3 >/proc/sys/vm/drop_caches
dd if="$device" bs=64k skip=1280 count=16 2>/dev/null | cmp /tmp/data -
cmp /tmp/data /mnt/before
umount /mnt
outboard detach "$device"
