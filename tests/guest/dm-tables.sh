# Tables of device-mapper mean the same to us as to the kernel: what the kernel wrote through linear,
# striped and zero targets reads equal through dm(TABLE), and what we wrote reads equal through the
# kernel. The tables name loop devices by path and by number, and are printed by dmsetup itself.
#: outboard
#: processors 1
#: timeout 600

modprobe loop
modprobe dm-mod
# There is no udev that would make the nodes.
export DM_DISABLE_UDEV=1
for n in 0 1 2 3; do
    dd if=/dev/urandom of="/tmp/disk$n" bs=64k count=$((8 + n)) 2>/dev/null
    losetup "/dev/loop$n" "/tmp/disk$n"
done

cat >/tmp/linear <<'TABLE'
# parts of three devices, one of them twice, and a start that is no multiple of 8
0 1000 linear /dev/loop0 8
1000 501 linear /dev/loop1 3      # behind an odd length
1501 16 linear /dev/loop0 1008
1517 640 linear 7:2 0
TABLE
cat >/tmp/striped <<'TABLE'
0 2400 striped 3 16 /dev/loop0 0 7:1 8 /dev/loop3 100
TABLE
# A chunk that is no power of two, and neither is the number of stripes.
cat >/tmp/odd <<'TABLE'
0 1680 striped 5 24 /dev/loop0 0 /dev/loop1 0 /dev/loop2 0 /dev/loop3 0 /dev/loop3 400
TABLE
cat >/tmp/mixed <<'TABLE'
0 8 linear /dev/loop1 0
8 96 zero
104 480 striped 2 8 /dev/loop2 8 /dev/loop3 16
584 17 linear /dev/loop0 1
TABLE

sum() {
    md5sum "$1" | cut -d ' ' -f 1
}

# What a table's disk holds, to the kernel and to us. The kernel lets go before we look.
equal() {
    dmsetup create "$1" "/tmp/$1"
    dmsetup table "$1" >/tmp/printed
    if [ "${2-}" ]; then
        dd if="$2" of="/dev/mapper/$1" bs=512 conv=fsync 2>/dev/null
    fi
    blockdev --flushbufs "/dev/mapper/$1"
    kernels=$(sum "/dev/mapper/$1")
    dmsetup remove "$1"
    # Pages of the devices themselves may be older than what was written through the table.
    for n in 0 1 2 3; do
        blockdev --flushbufs "/dev/loop$n"
    done
    rm -f /tmp/ours
    outboard copy "dm(/tmp/$1)" /tmp/ours
    test "$(sum /tmp/ours)" = "$kernels" || { echo "$1: ours is another disk"; exit 1; }
    # And by the kernel's own print of it.
    rm -f /tmp/ours
    outboard copy "dm(/tmp/printed)" /tmp/ours
    test "$(sum /tmp/ours)" = "$kernels" || { echo "$1: another disk, as printed"; exit 1; }
}

for table in linear striped odd mixed; do
    equal $table
    # Written by the kernel, read by us.
    sectors=$(($(stat -c %s /tmp/ours) / 512))
    dd if=/dev/urandom of=/tmp/data bs=512 count=$sectors 2>/dev/null
    equal $table /tmp/data
    if [ $table != mixed ]; then
        cmp /tmp/data /tmp/ours
    fi
    # Written by us, read by the kernel.
    dd if=/dev/urandom of=/tmp/data bs=512 count=$sectors 2>/dev/null
    outboard copy /tmp/data "dm(/tmp/$table)" --force
    equal $table
    if [ $table != mixed ]; then
        cmp /tmp/data /tmp/ours
    fi
    echo "$table is equal both ways"
done

# What the kernel refuses, we refuse.
refused() {
    echo "$1" >/tmp/refused
    if dmsetup create refused /tmp/refused 2>/dev/null; then
        echo "the kernel takes: $1"
        exit 1
    fi
    if outboard inspect 'dm(/tmp/refused)' 2>/tmp/said; then
        echo "we take: $1"
        exit 1
    fi
    cat /tmp/said
}

refused '8 8 zero'
refused '0 0 zero'
refused '0 8 zero 1'
refused '0 1024 linear /dev/loop0 1'
refused '0 8 linear /dev/loop0'
refused '0 8 linear /dev/loop0 0 0'
refused '0 100 striped 3 4 /dev/loop0 0 /dev/loop1 0 /dev/loop2 0'
refused '0 48 striped 3 5 /dev/loop0 0 /dev/loop1 0 /dev/loop2 0'
refused '0 48 striped 0 4'
refused '0 48 striped 3 0 /dev/loop0 0 /dev/loop1 0 /dev/loop2 0'
refused '0 48 striped 3 16 /dev/loop0 0 /dev/loop1 0'
