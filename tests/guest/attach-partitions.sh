# The partitions of an attached disk, through the kernel's nbd and over FUSE and a loop device: they are there when
# attach says so, are listed, and go with the device.
#: serve DISK 64M
#: outboard
#: processors 1
#: timeout 200

modprobe -a fuse loop
uri="nbd://10.0.2.2:$DISK/"
device=$(outboard attach "$uri" --via kernel)
printf 'label: gpt\nsize=16M\nsize=32M\n' | sfdisk -q "$device"
outboard detach "$device"

for via in kernel fuse; do
    device=$(outboard attach "$uri" --via $via 2>/tmp/said)
    cat /tmp/said
    grep -q "partition 2: ${device}p2" /tmp/said
    test "$(blockdev --getsize64 "${device}p2")" = $((32 << 20))
    outboard detach "$device"
    name=${device#/dev/}
    # The kernel keeps the partitions of an nbd device that is disconnected until its next open.
    test "$via" = kernel || test ! -e "/sys/block/$name/${name}p2"
done
