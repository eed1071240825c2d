# The kernel and our partition tables: it sees what we wrote, in blocks of 512 and of 4096 bytes, mounts
# the filesystems in it, and finds the disks that we grew; we serve partitions of tables that others
# wrote for it.
#: outboard
#: processors 1
#: timeout 300

modprobe -a loop ext4 fuse
mkdir -p /tmp/d
cd /tmp/d

# A loop device of blocks of $1 bytes over file $2, with its partitions; its name is in $loop.
loop() {
    loop=$(/usr/sbin/losetup --find --show --partscan --sector-size "$1" "$2")
    for _ in $(seq 50); do
        test -e "/sys/block/${loop#/dev/}/${loop#/dev/}p1" && break
        sleep 0.1
    done
}

# What the kernel says of partition $2 of $1: begin and size in sectors of 512 bytes.
place() {
    folder=/sys/block/${1#/dev/}/${1#/dev/}p$2
    echo "$(cat "$folder/start") $(cat "$folder/size")"
}

# Mounts partition $2 of $1, and finds it sound.
mounts() {
    e2fsck -fn "${1}p$2"
    mount "${1}p$2" /mnt
    echo content >/mnt/file
    umount /mnt
}

for block in 512 4096; do
    echo "we write, the kernel reads: blocks of $block"
    outboard disk create ours.img 96M --block-size $block \
        --part 16M:efi --part 32M:linux:root --fs ext4 --part rest:linux --fs ext4
    loop $block ours.img
    test "$(place "$loop" 1)" = "2048 32768"
    test "$(place "$loop" 2)" = "34816 65536"
    test "$(place "$loop" 3)" = "100352 94208"
    mounts "$loop" 2
    mounts "$loop" 3
    /usr/sbin/losetup -d "$loop"
    rm ours.img

    echo "an MBR with logical partitions: blocks of $block"
    outboard disk create mbr.img 64M --table mbr --block-size $block --part 8M:linux --part 8M:linux \
        --part 8M:swap --part 8M:linux --part rest:linux --fs ext4
    loop $block mbr.img
    test "$(place "$loop" 1)" = "2048 16384"
    test "$(place "$loop" 5)" = "53248 16384"
    test "$(place "$loop" 6)" = "71680 59392"
    mounts "$loop" 6
    /usr/sbin/losetup -d "$loop"
    rm mbr.img

    echo "we grow, the kernel reads: blocks of $block"
    outboard disk create grown.img 32M --block-size $block --part 8M:linux --part rest:linux --fs ext4
    outboard disk grow grown.img 64M --part 2
    loop $block grown.img
    test "$(place "$loop" 2)" = "18432 110592"
    e2fsck -fn "${loop}p2"
    test "$(dmesg | grep -c 'GPT:.*error\|alternate GPT header')" = 0
    /usr/sbin/losetup -d "$loop"
    rm grown.img

    echo "others write on a disk of the kernel's, we serve: blocks of $block"
    truncate -s 96M theirs.img
    loop=$(/usr/sbin/losetup --find --show --partscan --sector-size $block theirs.img)
    if test $block = 512; then
        sgdisk -n 1:0:+16M -n 2:0:+32M "$loop" >/dev/null
    else
        printf 'label: gpt\n,16M\n,32M\n' | sfdisk -q "$loop"
    fi
    partx --update "$loop" 2>/dev/null || true
    mkfs.ext4 -q -F "${loop}p2"
    mount "${loop}p2" /mnt
    dd if=/dev/urandom of=/mnt/data bs=64k count=16 2>/dev/null
    sum=$(md5sum </mnt/data)
    umount /mnt
    size=$(blockdev --getsize64 "${loop}p2")
    whole=$(md5sum <"${loop}p2")
    /usr/sbin/losetup -d "$loop"
    device=$(outboard attach 'partition(theirs.img, 2)' --via fuse --read-only)
    test "$(blockdev --getsize64 "$device")" = "$size"
    test "$(md5sum <"$device")" = "$whole"
    mount -o ro,noload "$device" /mnt
    test "$(md5sum </mnt/data)" = "$sum"
    umount /mnt
    outboard detach "$device"
    outboard inspect theirs.img
    rm theirs.img
done

echo "a damaged primary: we read the backup, the kernel reads nothing"
outboard disk create bad.img 64M --part rest:linux --fs ext4
printf 'x' | dd of=bad.img bs=1 seek=572 conv=notrunc 2>/dev/null
loop=$(/usr/sbin/losetup --find --show --partscan bad.img)
sleep 1
test ! -e "/sys/block/${loop#/dev/}/${loop#/dev/}p1"
/usr/sbin/losetup -d "$loop"
device=$(outboard attach 'partition(bad.img, 1)' --via fuse)
test "$(blockdev --getro "$device")" = 1
e2fsck -fn "$device"
outboard detach "$device"
outboard disk grow bad.img 64M
loop 512 bad.img
mounts "$loop" 1
/usr/sbin/losetup -d "$loop"
