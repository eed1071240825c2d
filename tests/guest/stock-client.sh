# Our server with the kernel's client as nbd-client sets it up: a filesystem is made, filled, mounted
# again and compared, and its own checker finds nothing, for ext4 and for XFS.
#: serve DISK 512M
#: timeout 240

connect() {
    nbd-client -N "" 10.0.2.2 "$DISK" /dev/nbd0
}

fill() {
    mkdir /mnt/files
    for number in 1 2 3 4 5 6 7 8; do
        dd if=/dev/urandom of=/mnt/files/$number bs=64k count=$((number * 6)) 2>/dev/null
    done
    dd if=/dev/urandom of=/mnt/files/odd bs=1000 count=777 conv=fsync 2>/dev/null
    (cd /mnt/files && md5sum ./*) >/tmp/sums
}

compare() {
    (cd /mnt/files && md5sum -c -s /tmp/sums)
    test "$(ls /mnt/files | wc -l)" = 9
}

# Makes the filesystem $1, and uses it over two connections so that no cache of this side helps.
use() {
    connect
    "mkfs.$1" -q "$2" /dev/nbd0
    mount -t "$1" /dev/nbd0 /mnt
    fill
    umount /mnt
    nbd-client -d /dev/nbd0
    echo 3 >/proc/sys/vm/drop_caches
    connect
    mount -t "$1" -o ro /dev/nbd0 /mnt
    compare
    umount /mnt
}

use ext4 -F
e2fsck -fn /dev/nbd0
nbd-client -d /dev/nbd0

use xfs -f
xfs_repair -n /dev/nbd0
nbd-client -d /dev/nbd0
echo "ext4 and XFS are whole"
