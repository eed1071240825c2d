# What we make and write, the kernel's md runs: arrays by `outboard array create`, of each level that is
# written, each layout and each kind of superblock, with and without a bitmap, written through us in pieces
# of all sizes. mdadm assembles them as they are, without a resync; the data are what was written; the
# kernel's own check finds no two copies that differ; mdadm reads our superblocks and bitmaps, and says the
# same of arrays that it made itself. Filesystems made and filled through us are whole on the kernel's array.
#
# The host makes and writes the arrays on the images of disks A to F; the guest judges them.
#: outboard
#: disk A 8M
#: disk B 8M
#: disk C 8M
#: disk D 8M
#: disk E 9M
#: disk F 10M
#: disk G 320M
#: disk H 320M
#: processors 1
#: timeout 600

. /guest/arrays.sh

# made VERSION LEVEL MEMBERS [OPTION…]: we make and write an array, the kernel judges it.
made() {
    name="$*"
    disks=$(devices $3)
    # How large it should be, and what it should hold.
    expected=$(host make "$@")
    assemble
    same "$name, size and data" "$(size) $(sum /dev/md0)" "$expected"
    case $2 in
    1 | 10)
        # It has begun no resync: the array was clean.
        same "$name, resync from" "$(md resync_start)" none
        check
        ;;
    esac
    location=$(md bitmap/location 2>/dev/null || echo none)
    stop
    if [ "$location" != none ]; then
        for disk in $disks; do
            mdadm --examine-bitmap $disk >/tmp/bitmap
            same "$name, magic of the bitmap" "$(sed -n 's/ *Magic : //p' /tmp/bitmap)" 6d746962
            same "$name, uuid of the bitmap" "$(sed -n 's/ *UUID : //p' /tmp/bitmap)" \
                "$(mdadm --examine $disk | sed -n 's/^ *\(Array \)\{0,1\}UUID : \([^ ]*\).*/\2/p')"
        done
    fi
    alike "$@"
    echo "$name: the kernel agrees"
}

combination made 1.2 linear ABE
combination made 0.90 linear AF
combination made 1.2 0 ABEF --chunk=16K
combination made 1.0 0 AB
combination made 1.1 0 ABC --chunk=64K

combination made 1.2 1 AB
combination made 1.2 1 ABC --bitmap=64K
combination made 1.2 1 AB --bitmap=none
combination made 1.1 1 AB
combination made 1.0 1 AB
combination made 1.0 1 AF --bitmap=none
combination made 0.90 1 AB
combination made 0.90 1 ABC --bitmap=none

for layout in n2 f2 o2; do
    combination made 1.2 10 ABC --layout=$layout --chunk=16K
    combination made 1.2 10 ABCD --layout=$layout --chunk=64K --bitmap=none
done
combination made 1.2 10 ABCDE --layout=n3 --chunk=16K --bitmap=16K
combination made 1.1 10 ABCDE --layout=f3 --chunk=16K
combination made 1.0 10 AB --layout=o2 --chunk=64K
combination made 0.90 10 ABCD --chunk=32K

# What is on a filesystem, by checksum.
contents() {
    (cd /mnt && find . -type f | sort | xargs md5sum) >$1
}

# filesystem KIND MEMBERS [OPTION…]: made and filled through us, whole on the kernel's array.
filesystem() {
    kind=$1 disks=$(devices $2) name="$*"
    shift 2
    modprobe $kind
    outboard array create $disks --assume-clean "$@"
    device=$(outboard attach "array($(echo $disks | sed 's/ /, /g'))")
    mkfs.$kind -q $device
    mount -t $kind $device /mnt
    cp -r /usr/sbin /mnt/
    rm -rf /mnt/sbin/l*
    dd if=/dev/urandom of=/mnt/random bs=64k count=32 conv=fsync 2>/dev/null
    contents /tmp/written
    umount /mnt
    outboard detach $device
    assemble
    case $kind in
    ext4) e2fsck -fn /dev/md0 ;;
    xfs) xfs_repair -n /dev/md0 ;;
    esac
    mount -t $kind -o ro /dev/md0 /mnt
    contents /tmp/found
    cmp /tmp/written /tmp/found
    umount /mnt
    check
    stop
    echo "$name: the kernel agrees"
}

modprobe fuse
modprobe loop
filesystem ext4 GH --level=1
host blank GH
filesystem xfs GH --level=10 --layout=f2
#: host
. "$SCRIPTS/arrays/host.sh"

case $1 in
blank)
    blank $(images $2)
    ;;
make)
    version=$2 level=$3 members=$(images $4)
    shift 4
    blank $members
    case $level in
    1 | 10) clean=--assume-clean ;;
    *) clean= ;;
    esac
    quietly outboard array create $members --level=$level --metadata=$version --name=photos $clean "$@"
    serve "$(array "$members")"
    size=$(nbdinfo --size "$uri")
    head -c $size /dev/urandom >model
    quietly nbdcopy model "$uri"
    writes $size 0 $size 150 >list
    write_both list
    finish
    examined $members
    echo "$size $(sum model)"
    ;;
alike)
    alike $(images $2)
    ;;
esac
