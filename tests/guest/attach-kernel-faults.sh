# Our attachment through the kernel's nbd when something of it has died: with our process killed the
# device lives on and detach loses nothing; with the server gone detach ends in time, says that data
# may be lost, and leaves nothing behind either.
#: serve DISK 256M
#: outboard
#: timeout 200

uri="nbd://10.0.2.2:$DISK/"

nothing_left() {
    name=${device#/dev/}
    test ! -e "/sys/block/$name/pid"
    test "$(cat "/sys/block/$name/size")" = 0
    test ! -e /mnt/disk
    if pidof outboard; then
        echo "a process is left behind"
        exit 1
    fi
    test -z "$(find /run -type f)"
}

device=$(outboard attach "$uri" --via kernel)
mkfs.ext4 -q -F "$device"
outboard detach "$device"

outboard attach "$uri" --via kernel --mount /mnt/disk
kill -9 "$(pidof outboard)"
dd if=/dev/urandom of=/tmp/data bs=64k count=32 2>/dev/null
cp /tmp/data /mnt/disk/data
outboard detach /mnt/disk
nothing_left

outboard attach "$uri" --via kernel --mount /mnt/disk
cmp /tmp/data /mnt/disk/data
echo unsaved >/mnt/disk/unsaved
echo "@kill DISK"
sleep 2
outboard status
if outboard detach /mnt/disk --timeout 3 2>/tmp/said; then
    echo "a detach without a server went well"
    exit 1
fi
cat /tmp/said
grep -q lost /tmp/said
nothing_left

echo "@start DISK"
sleep 2
outboard attach "$uri" --via kernel --mount /mnt/disk
cmp /tmp/data /mnt/disk/data
outboard detach --all
nothing_left
