# A disk that grows while its server lives: `outboard refresh` makes the connections of the kernel's nbd
# again and the device grows, under a mounted filesystem. The server of the larger disk takes the place of
# the first one, which keeps its connections: so it shows that none of them is used any more. Loop devices have no
# identity: a copy of a file would be refused as another disk.
#: outboard
#: timeout 200

serve() {
    outboard serve "$1" --listen unix:/tmp/socket &
    for _ in $(seq 100); do
        test -S /tmp/socket && return 0
        sleep 0.1
    done
    echo "the server of $1 does not listen"
    exit 1
}

size() {
    blockdev --getsize64 "$device"
}

modprobe loop
truncate -s 64M /tmp/small
losetup /dev/loop0 /tmp/small
serve /dev/loop0
first=$!
device=$(outboard attach 'nbd+unix:///?socket=/tmp/socket' --via kernel)
mkfs.ext4 -q -F "$device"
mount "$device" /mnt
dd if=/dev/urandom of=/tmp/data bs=64k count=16 2>/dev/null
cp /tmp/data /mnt/before
sync
test "$(outboard refresh "$device")" = 64M

cp /tmp/small /tmp/large
truncate -s 96M /tmp/large
rm /tmp/socket
losetup /dev/loop1 /tmp/large
serve /dev/loop1
test "$(size)" = $((64 << 20))
test "$(outboard refresh "$device")" = 96M
test "$(size)" = $((96 << 20))
kill "$first"
wait "$first" || true

dd if=/tmp/data of="$device" bs=64k seek=1280 conv=fsync 2>/dev/null
cp /tmp/data /mnt/after
sync
echo 3 >/proc/sys/vm/drop_caches
dd if="$device" bs=64k skip=1280 count=16 2>/dev/null | cmp /tmp/data -
cmp /tmp/data /mnt/before
cmp /tmp/data /mnt/after
outboard status
outboard status | grep -q connected

# A smaller disk is not followed, and reported.
truncate -s 32M /tmp/tiny
rm /tmp/socket
serve /tmp/tiny
if outboard refresh "$device" 2>/tmp/said; then
    echo "the device shrank"
    exit 1
fi
cat /tmp/said
grep -q "33554432 bytes now" /tmp/said
test "$(size)" = $((96 << 20))
umount /mnt
outboard detach "$device"
test ! -e "/sys/block/${device#/dev/}/pid"
e2fsck -fn /tmp/large
