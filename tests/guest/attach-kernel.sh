# Our attachment through the kernel's nbd, with the server killed and started again under a writer:
# the mount lives on, what fsync acknowledged is there afterwards, and detach leaves nothing behind.
#: serve DISK 512M
#: outboard
#: timeout 300

attach() {
    device=$(outboard attach "nbd://10.0.2.2:$DISK/" --via kernel)
    test -b "$device"
}

detach() {
    outboard detach "$device"
    name=${device#/dev/}
    test ! -e "/sys/block/$name/pid"
    test "$(cat "/sys/block/$name/size")" = 0
    if pidof outboard; then
        echo "a process is left behind"
        exit 1
    fi
    test -z "$(find /run -type f)"
}

# Writes files one after the other; a line for each that fsync acknowledged.
write_files() {
    number=0
    while test ! -e /tmp/stop; do
        number=$((number + 1))
        dd if=/dev/urandom of=/tmp/piece bs=64k count=4 2>/dev/null
        dd if=/tmp/piece of="/mnt/$number" bs=64k conv=fsync 2>/dev/null
        echo "$(md5sum </tmp/piece | cut -d' ' -f1)  /mnt/$number" >>/tmp/acknowledged
    done
    touch /tmp/stopped
}

# Waits until $1 more files are acknowledged than there were.
wait_for_more() {
    wanted=$(($(wc -l </tmp/acknowledged) + $1))
    for _ in $(seq 300); do
        test "$(wc -l </tmp/acknowledged)" -lt "$wanted" || return 0
        sleep 0.1
    done
    echo "the writer stands still"
    exit 1
}

attach
mkfs.ext4 -q -F "$device"
mount "$device" /mnt
: >/tmp/acknowledged
write_files &
for _ in 1 2 3; do
    wait_for_more 5
    echo "@kill DISK"
    sleep 1
    echo "@start DISK"
done
wait_for_more 5
touch /tmp/stop
wait
test -e /tmp/stopped
umount /mnt
detach

attach
mount -o ro "$device" /mnt
md5sum -c -s /tmp/acknowledged
umount /mnt
e2fsck -fn "$device"
mkfs.xfs -q -f "$device"
mount -t xfs "$device" /mnt
dd if=/tmp/piece of=/mnt/piece bs=64k conv=fsync 2>/dev/null
umount /mnt
detach

attach
xfs_repair -n "$device"
mount -t xfs -o ro "$device" /mnt
cmp /tmp/piece /mnt/piece
umount /mnt
detach
echo "$(wc -l </tmp/acknowledged) files were acknowledged and none is lost"
