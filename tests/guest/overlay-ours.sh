# The kernel's device-mapper opens a store that we wrote: the same bytes, of several tables and of zeroes;
# what it writes on is there when we open the store again, and the base is what it was.
#: outboard
#: processors 1
#: timeout 300

# There is no udev: device-mapper makes its nodes by itself.
export DM_DISABLE_UDEV=1
for module in loop fuse dm-mod dm-snapshot; do
    modprobe $module
done

size=$((24 << 20))
dd if=/dev/urandom of=/tmp/base bs=64k count=384 2>/dev/null
md5sum /tmp/base >/tmp/base.sum

# Writes through an overlay, on a device of ours.
through_us() {
    device=$(outboard attach "overlay(/tmp/base, /tmp/top)" --via fuse)
    for place in $1; do
        dd if=/dev/urandom of="$device" bs=4k seek="$place" count="$2" conv=fsync,notrunc 2>/dev/null
    done
    # A part of a chunk; its rest is the base's.
    echo "not a whole chunk" | dd of="$device" bs=1 seek=20000003 conv=fsync,notrunc 2>/dev/null
    outboard detach "$device"
}

ours() {
    rm -f /tmp/ours
    outboard copy "overlay(/tmp/base, /tmp/top)" /tmp/ours >/dev/null
    md5sum </tmp/ours
}

# Runs a command on the snapshot that the kernel makes of base and store.
with_kernel() {
    base=/dev/loop5
    losetup -r "$base" /tmp/base
    top=/dev/loop6
    losetup "$top" /tmp/top
    echo "0 $((size / 512)) snapshot $base $top P 8" | dmsetup create over
    "$@"
    sync
    dmsetup status over
    dmsetup status over | grep -vq Invalid
    dmsetup remove over
    losetup -d "$top"
    losetup -d "$base"
}

sum() {
    md5sum </dev/mapper/over >/tmp/kernels
}

# More than two tables of 256 chunks.
through_us "10 1000 3000" 200
ours >/tmp/first
with_kernel sum
cmp /tmp/first /tmp/kernels

# The kernel writes on: chunks that are there, and enough new ones for another table.
write() {
    dd if=/dev/urandom of=/dev/mapper/over bs=4k seek=100 count=300 conv=fsync,notrunc 2>/dev/null
    dd if=/dev/urandom of=/dev/mapper/over bs=512 seek=40001 count=3 conv=fsync,notrunc 2>/dev/null
    sum
}
with_kernel write
ours >/tmp/second
cmp /tmp/second /tmp/kernels
if cmp -s /tmp/first /tmp/second; then
    echo "the kernel has written nothing"
    exit 1
fi

# And so do we, and the kernel reads it again.
through_us "50 4000 5500" 150
ours >/tmp/third
with_kernel sum
cmp /tmp/third /tmp/kernels
outboard overlay status /tmp/top
outboard overlay status /tmp/top | grep -q valid

# All of it goes into the base: the kernel sees an empty store over it.
md5sum -c /tmp/base.sum
outboard overlay commit /tmp/top /tmp/base
md5sum </tmp/base | cmp /tmp/third -
with_kernel sum
cmp /tmp/third /tmp/kernels
