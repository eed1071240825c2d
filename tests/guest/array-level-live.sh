# A filesystem on an array that gets other levels while it is mounted and written: the kernel's md takes what came of it, and finds no
# difference; the filesystem is whole.
#: outboard
#: processors 1
#: disk A 24M
#: disk B 24M
#: disk C 24M
#: timeout 300

. /guest/arrays.sh
modprobe fuse
modprobe loop
modprobe ext4

# begin MEMBERS OPTION…: an array that is attached, with a filesystem that is mounted.
begin() {
    disks=$(devices $1) name="$*" written=0
    shift
    host blank ABC
    for disk in $(devices ABC); do
        blockdev --flushbufs $disk
    done
    quietly outboard array create $disks --name=live "$@"
    device=$(outboard attach "array($(echo $disks | sed 's/ /, /g'))")
    mkfs.ext4 -q $device
    mount -t ext4 $device /mnt
}

# The array is changed while a file is written: during COMMAND…
during() {
    written=$((written + 1))
    dd if=/dev/urandom of=/mnt/$written bs=16k count=96 conv=fsync 2>/dev/null &
    writer=$!
    command=$1
    shift
    quietly outboard array $command live "$@"
    wait $writer
    name="$name, $command $*"
}

# The kernel takes the array of these members, of that level, with the same files: ended MEMBERS LEVEL.
ended() {
    md5sum /mnt/[0-9]* >/tmp/written
    umount /mnt
    outboard detach $device
    disks=$(devices $1)
    assemble
    same "$name, level" "$(md level)" $2
    e2fsck -fn /dev/md0 >/tmp/said 2>&1 || {
        cat /tmp/said
        exit 1
    }
    if [ $2 != raid0 ]; then
        check
    fi
    mount -t ext4 -o ro /dev/md0 /mnt
    md5sum -c -s /tmp/written
    umount /mnt
    stop
    echo "$name: the kernel agrees"
}

begin AB --level=1 --assume-clean
during grow --level 5
ended AB raid5
begin AB --level=5 --assume-clean
during grow --level 1
ended AB raid1
begin AB --level=0
during grow --level 5
during add --disk /dev/vdc --wait
ended ABC raid5
begin ABC --level=5 --layout=parity-last --assume-clean
during grow --level 0
ended AB raid0
#: host
. "$SCRIPTS/arrays/host.sh"

case $1 in
blank)
    blank $(images $2)
    ;;
esac
