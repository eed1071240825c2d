# The disks of a NAS, made by the kernel, are served by `serve --auto` without any configuration, also with one
# disk missing: partitions, arrays on them, a group on an array, a filesystem in its volume.
#
# A to D are as Synology makes them: GPT, system and swap on mirrors with superblocks 0.90 that have a place for each
# bay, data on RAID 5 with the header of a physical volume as it was before LVM 2.02.99, ext4. E and F are as QNAP
# makes them: data on a mirror with superblocks 1.0, a thin pool, ext4 in a thin volume.
#: outboard host
#: processors 1
#: disk A 64M
#: disk B 64M
#: disk C 64M
#: disk D 64M
#: disk E 96M
#: disk F 96M
#: disk PATTERN 64M
#: disk NOTES 1M
#: timeout 300

. /guest/volumes.sh
for module in md-mod raid1 raid456; do
    modprobe $module
done
configure '"a|/dev/md|"'
host pattern 64
disks=$(devices ABCDEF)

# partitions DEVICE MIB…: partitions of these sizes, and one for the rest.
partitions() {
    device=$1 number=1
    shift
    options=
    for size; do
        options="$options -n $number:0:+${size}M -t $number:fd00"
        number=$((number + 1))
    done
    quietly sgdisk $options -n $number:0:0 -t $number:fd00 $device
    for _ in $(seq 50); do
        test ! -b ${device}$number || return 0
        sleep 0.1
    done
    echo "$device has no partition $number"
    exit 1
}

# Makes an array that is in sync.
array() {
    device=$1
    shift
    quietly mdadm --create $device --run --assume-clean --name=2 --homehost=nas "$@"
}

# Puts a filesystem with files on a device, and its checksum in the notes.
files() {
    quietly mkfs.ext4 -q -L $2 $1
    mount $1 /mnt
    mkdir -p /mnt/photos/2019
    for number in 1 2 3 4 5 6; do
        dd if=/dev/vdg of=/mnt/photos/2019/$number.jpg bs=16k skip=$((number * 37)) count=$((number * 5)) 2>/dev/null
    done
    (
        cd /mnt
        find photos -type f | sort | while read -r file; do
            echo "file $2 $file $(sum $file)"
        done
    ) >>/tmp/all
    umount /mnt
    blockdev --flushbufs $1
    echo "volume $2 $(blockdev --getsize64 $1) $(sum $1) 1" >>/tmp/all
}

rm -f /tmp/all
for disk in $(devices ABCD); do
    partitions $disk 8 4
done
array /dev/md0 --metadata=0.90 --level=1 --raid-devices=6 /dev/vda1 /dev/vdb1 /dev/vdc1 /dev/vdd1 missing missing
array /dev/md1 --metadata=0.90 --level=1 --raid-devices=6 /dev/vda2 /dev/vdb2 /dev/vdc2 /dev/vdd2 missing missing
files /dev/md0 system
mkswap /dev/md1 >/dev/null
array /dev/md2 --metadata=1.2 --level=5 --chunk=64 --raid-devices=4 /dev/vd[a-d]3
quietly lvm vgcreate -q -s 1M vg1 /dev/md2
quietly lvm lvcreate -q -y -L 3M -n syno_vg_reserved_area vg1
quietly lvm lvcreate -q -y -l 100%FREE -n volume_1 vg1
files /dev/mapper/vg1-volume_1 volume_1
quietly lvm vgchange -q -an vg1
# The host makes the header an old one.
dd if=/dev/md2 of=/dev/vdh bs=512 count=8 conv=fsync 2>/dev/null
host old NOTES
reread /dev/vdh
dd if=/dev/vdh of=/dev/md2 bs=512 skip=1 seek=1 count=1 conv=fsync,notrunc 2>/dev/null
host blank NOTES
reread /dev/vdh
lvm pvs -o+pv_uuid 2>&1

for disk in $(devices EF); do
    partitions $disk 4
done
array /dev/md3 --metadata=1.0 --level=1 --raid-devices=2 /dev/vde2 /dev/vdf2
quietly lvm vgcreate -q -s 1M vg288 /dev/md3
quietly lvm lvcreate -q -y -L 2M -n lv544 vg288
quietly lvm lvcreate -q -y --type thin-pool -L 64M --poolmetadatasize 4M -c 512k -n tp1 vg288
quietly lvm lvcreate -q -y -V 48M --thinpool tp1 -n lv1 vg288
files /dev/mapper/vg288-lv1 lv1
{
    cat /tmp/all
    echo "@ lvs"
    lvm lvs -a -o+seg_type,devices
    echo "@ mdstat"
    cat /proc/mdstat
    echo "@ dmsetup table"
    dmsetup table
    for name in vg1 vg288; do
        echo "@ vgcfgbackup of $name"
        lvm vgcfgbackup -q -f /tmp/backup $name >/dev/null
        cat /tmp/backup
    done
} >/tmp/notes 2>&1
quietly lvm vgchange -q -an
for array in 0 1 2 3; do
    quietly mdadm --stop /dev/md$array
done
hand_over
host serve
#: host
. "$SCRIPTS/volumes/host.sh"

# served IMAGE…: they are served, with an export of volume $1 that reads equal.
served() {
    volume=$1 size=$2 sum=$3
    shift 3
    rm -f socket
    outboard serve --auto "$@" --listen "unix:$PWD/socket" --exit-with-parent </dev/null >report 2>&1 &
    server=$!
    for _ in $(seq 200); do
        test ! -e socket || break
        sleep 0.02
    done
    export=$(grep -o "^[^ ]*$volume" report) || {
        echo "$volume is not served from $*:"
        cat report
        exit 1
    }
    rm -f found
    quietly nbdcopy "nbd+unix:///$export?socket=$PWD/socket" found
    if [ "$(stat -c %s found) $(md5sum <found)" != "$size $sum  -" ]; then
        echo "$export of $*: other data"
        exit 1
    fi
    sed -n "s/^file $volume //p" notes | while read -r file sum; do
        test "$(debugfs -R "cat $file" found 2>/dev/null | md5sum)" = "$sum  -"
    done
    kill $server
    wait $server
    echo "$export: equal, from $*"
}

case $1 in
blank) blank $2.img ;;
pattern) pattern $2 ;;
old) old_header $2.img ;;
serve)
    take_notes
    name=nas members="A.img B.img C.img D.img E.img F.img"
    keep
    test -z "${KEEP_ONLY-}" || exit 0
    stat -c '%n %y' $members >before
    for volume in volume_1 lv1; do
        words=$(sed -n "s/^volume $volume \([^ ]* [^ ]*\) .*/\1/p" notes)
        served $volume $words $members
        for gone in $members; do
            served $volume $words $(without "$members" $gone)
        done
    done
    stat -c '%n %y' $members | cmp - before
    ;;
esac
