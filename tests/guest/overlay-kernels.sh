# We open stores that the kernel made: one of dmsetup with chunks of 16 KiB, one of `lvcreate --snapshot`, to
# which the kernel has copied what was overwritten in the origin. What we write on, the kernel reads. A store
# that was full, so that the kernel gave it up, is refused by name.
#: outboard
#: processors 1
#: timeout 400

# There is no udev: device-mapper makes its nodes by itself.
export DM_DISABLE_UDEV=1
for module in loop fuse dm-mod dm-snapshot; do
    modprobe $module
done

dd if=/dev/urandom of=/tmp/base bs=64k count=128 2>/dev/null
truncate -s 16M /tmp/top
base=/dev/loop5
losetup -r "$base" /tmp/base
top=/dev/loop6
losetup "$top" /tmp/top
echo "0 16384 snapshot $base $top P 32" | dmsetup create over
dd if=/dev/urandom of=/dev/mapper/over bs=16k seek=7 count=100 conv=fsync,notrunc 2>/dev/null
dd if=/dev/urandom of=/dev/mapper/over bs=512 seek=16001 count=9 conv=fsync,notrunc 2>/dev/null
kernels=$(md5sum </dev/mapper/over)
dmsetup remove over
losetup -d "$top"
outboard overlay status /tmp/top
outboard overlay status /tmp/top --json | grep -q '"chunk":16384'
outboard copy "overlay(/tmp/base, /tmp/top)" /tmp/ours
test "$(md5sum </tmp/ours)" = "$kernels"

device=$(outboard attach "overlay(/tmp/base, /tmp/top)" --via fuse)
dd if=/dev/urandom of="$device" bs=4k seek=3 count=1500 conv=fsync,notrunc 2>/dev/null
ours=$(md5sum <"$device")
outboard detach "$device"
top=/dev/loop6
losetup "$top" /tmp/top
echo "0 16384 snapshot $base $top P 32" | dmsetup create over
test "$(md5sum </dev/mapper/over)" = "$ours"
dmsetup status over
dmsetup remove over
losetup -d "$top"

# A snapshot of LVM's: its store holds what the origin was.
truncate -s 64M /tmp/pv
pv=/dev/loop7
losetup "$pv" /tmp/pv
export LVM_SUPPRESS_FD_WARNINGS=1
lvm pvcreate -q "$pv"
lvm vgcreate -q vg0 "$pv"
lvm lvcreate -q -y -Zn -Wn -n data -L 16M vg0
dd if=/dev/urandom of=/dev/mapper/vg0-data bs=64k conv=fsync 2>/dev/null || true
lvm lvcreate -q -y -s -n before -L 12M vg0/data
before=$(md5sum </dev/mapper/vg0-data)
dd if=/dev/urandom of=/dev/mapper/vg0-data bs=4k seek=11 count=900 conv=fsync 2>/dev/null
dd if=/dev/urandom of=/dev/mapper/vg0-before bs=4k seek=2000 count=40 conv=fsync,notrunc 2>/dev/null
kernels=$(md5sum </dev/mapper/vg0-before)
test "$kernels" != "$before"
# The parts that a snapshot is made of.
dd if=/dev/mapper/vg0-data-real of=/tmp/origin bs=1M 2>/dev/null
dd if=/dev/mapper/vg0-before-cow of=/tmp/cow bs=1M 2>/dev/null
outboard overlay status /tmp/cow
rm /tmp/ours
outboard copy "overlay(/tmp/origin, /tmp/cow)" /tmp/ours
test "$(md5sum </tmp/ours)" = "$kernels"
lvm vgchange -q -an vg0

# Too small for what is written: the kernel gives the store up, and so do we.
truncate -s 1M /tmp/small
small=/dev/loop6
losetup "$small" /tmp/small
echo "0 16384 snapshot $base $small P 8" | dmsetup create over
dd if=/dev/urandom of=/dev/mapper/over bs=64k count=64 conv=fsync,notrunc 2>/dev/null || true
dmsetup status over | grep -q Invalid
dmsetup remove over
losetup -d "$small"
outboard overlay status /tmp/small | grep -q "invalid: the kernel gave it up"
if outboard copy "overlay(/tmp/base, /tmp/small)" /tmp/never 2>/tmp/said; then
    echo "a store that the kernel gave up was opened"
    exit 1
fi
cat /tmp/said
grep -q "marked it invalid" /tmp/said
