# The kernel's snapshots read equal through volume(…): of an origin that was written afterwards, written themselves,
# with chunks from 4 KiB to 512 KiB, and with a store that is several times as large as one area of exceptions. A
# snapshot with a store that was full is refused, and its origin is not. A merge that was cut off, at several points, reads as
# the snapshot; so does a move of extents that was cut off.
#
# Our snapshots are the kernel's, also those of an origin that is served and written meanwhile: it reads them equal, finds
# them as full as we do and mounts them; it finishes a merge that we began, and we one that it began; after we removed
# one vgck finds nothing.
#: outboard host
#: processors 1
#: disk A 48M
#: disk B 48M
#: disk C 48M
#: disk D 48M
#: disk E 48M
#: disk F 48M
#: disk PATTERN 64M
#: disk NOTES 1M
#: timeout 600

. /guest/volumes.sh
host pattern 64

# snapshot NAME ORIGIN MIB CHUNK
snapshot() {
    quietly lvm lvcreate -q -y -s -L $3M -c $4 -n $1 vg/$2
    judged $1 0
}

# Writes one block of 4 KiB in each 64 KiB of a volume.
scatter() {
    block=$2
    while [ $block -lt 2048 ]; do
        dd if=/dev/vdg of=/dev/mapper/vg-$1 bs=4k skip=$((block + 7777)) seek=$block count=1 conv=notrunc \
            2>/dev/null
        block=$((block + 16))
    done
    sync
}

# The group that the host has changed is active, and LVM finds it good.
activate() {
    reread $disks
    quietly lvm vgck vg
    for disk in $disks; do
        lvm pvck --dump headers $disk >/tmp/output 2>&1
        if grep -E 'CHECK|[Ii]nvalid|[Ee]rror' /tmp/output; then
            echo "pvck finds that on $disk"
            exit 1
        fi
    done
    quietly lvm vgchange -q -ay vg
}

# agree NAME:SUM:TENTHS…: the kernel reads these volumes equal, and finds stores as full.
agree() {
    for word; do
        name=${word%%:*} tenths=${word##*:}
        expected=${word%:*}
        same "$name" "$name:$(sum /dev/mapper/vg-$name)" "$expected"
        test $tenths != - || continue
        percent=$(lvm lvs --noheadings -o data_percent vg/$name | tr -d ' ')
        awk -v ours=$tenths -v theirs=$percent 'BEGIN { d = ours / 10 - theirs; exit d > 0.11 || d < -0.11 }' || {
            echo "$name is $percent % full, not $tenths tenths"
            exit 1
        }
        echo "$name: equal, $percent % full"
    done
}

# Ours, of a filesystem of the kernel's.
group ABC
quietly lvm lvcreate -q -y -n data -L 24M vg
quietly mkfs.ext4 -q /dev/mapper/vg-data
mount /dev/mapper/vg-data /mnt
dd if=/dev/vdg of=/mnt/file bs=64k skip=80 count=50 2>/dev/null
(cd /mnt && md5sum file >sums)
umount /mnt
deactivate
expected=$(host ours)
activate
agree $expected
mount -o ro /dev/mapper/vg-before /mnt
(cd /mnt && md5sum -c sums >/dev/null)
umount /mnt
# The kernel fills on what we made, and we read that.
fill data 40 3 8
fill before 50 1 2
judged data 0
judged before 0
judged second 0
judged third 0
judge ours
# We begin a merge, which the kernel finishes.
merged=$(host begin before)
activate
for _ in $(seq 300); do
    lvm lvs vg/before >/dev/null 2>&1 || break
    sleep 0.2
done
same "volumes" "$(lvm lvs --noheadings -o lv_name vg | tr -d ' ' | tr '\n' ' ')" "data second third "
same "the merge that the kernel finished" "$(sum /dev/mapper/vg-data)" "$merged"
deactivate
host remove third
# One that our server merges while it has the origin open.
merged=$(host merge-served second)
activate
same "volumes" "$(lvm lvs --noheadings -a -o lv_name vg | tr -d ' ' | tr '\n' ' ')" "data "
same "the merge into what was served" "$(sum /dev/mapper/vg-data)" "$merged"
deactivate

group ABC
volume origin 0 0 8 -i 2 vg
snapshot first origin 9 4k
fill origin 20 2 1
scatter origin 3
snapshot second origin 8 16k
fill origin 24 1 4
fill second 28 1
fill second 30 1 5
scatter second 9
snapshot coarse origin 9 512k
scatter origin 5
snapshot full origin 1 4k
# Its write to the store fails, that to the origin does not.
fill origin 32 3 2
dmsetup status vg-full | grep Invalid
snapshot unused origin 1 8k
volumes="origin:0 first:0 second:0 coarse:0 unused:0 full:refused"
judge snapshots

# A merge that was cut off.
group AB
volume origin 0 0 24 vg
volume other 0 50 2 vg
snapshot older origin 26 4k
fill origin 30 16 4
scatter origin 1
# The origin reads as the snapshot from the first moment on.
volumes="older:0 other:0"
merged=$(sum /dev/mapper/vg-older)
describe
sed -i 's/^volume older/volume origin/' /tmp/notes
hand_over
echo 1 >/sys/module/dm_snapshot/parameters/snapshot_copy_throttle
quietly lvm lvconvert -q -y -b --merge vg/older
same "the origin is merging" "$(dmsetup table vg-origin | cut -d ' ' -f 3)" snapshot-merge
for point in 1 2 3; do
    dmsetup status vg-origin
    host read merging-$point $letters
    sleep 0.2
done
deactivate
host read merging-stopped $letters
host merge older
activate
same "the merge that we finished" "$(sum /dev/mapper/vg-origin)" "$merged"
same "volumes" "$(lvm lvs --noheadings -a -o lv_name vg | tr -d ' ' | tr '\n' ' ')" "origin other "
deactivate
echo 100 >/sys/module/dm_snapshot/parameters/snapshot_copy_throttle

# A move that was cut off. It is over soon: the sums are taken before.
group ABC
volume moved 0 0 40 vg /dev/vda
volume other 0 50 2 vg /dev/vda
fill moved 30 2 10
describe
echo 1 >/sys/module/dm_mirror/parameters/raid1_resync_throttle
quietly lvm pvmove -q -b -n moved /dev/vda /dev/vdb
for _ in $(seq 100); do
    test -z "$(dmsetup table | grep ' mirror ')" || break
    sleep 0.1
done
fill moved 30 2 10
{
    echo "@ while extents move"
    dmsetup table
    dmsetup status
    lvm vgcfgbackup -q -f /tmp/backup vg >/dev/null
    cat /tmp/backup
} >>/tmp/notes
hand_over
dmsetup status | grep ' mirror '
host read moving $letters
deactivate
host read moving-stopped $letters
#: host
. "$SCRIPTS/volumes/host.sh"

members=$(images ABC)

# put FROM COUNT: the pattern from this MiB on at the beginning of the origin, which is served.
put() {
    rm -f content
    dd if=PATTERN.img of=content bs=1M skip=$1 count=$2 status=none
    quietly outboard copy content 'nbd+unix:///data?socket=socket' --force
}

# The checksum of a volume.
sum_of() {
    rm -f found
    quietly outboard copy "$(volume "$members" $1)" found --detect-zeroes never
    md5sum <found | cut -d ' ' -f 1
}

# How full the store of a snapshot is, in tenths of a percent.
tenths() {
    outboard volume snapshot list --json $members |
        sed "s/.*\"name\":\"$1\"[^}]*\"per_mille\":\([0-9]*\).*/\1/"
}

snapshot() {
    command=$1 path=$2
    shift 2
    quietly outboard volume snapshot $command $path "$@" $members
}

# Serves the origin.
serve_data() {
    export OUTBOARD_RUNTIME_DIR=$PWD/run
    rm -f socket
    outboard serve "data=$(volume "$members" data)" --listen unix:socket >serving 2>&1 &
    server=$!
    until test -S socket; do
        kill -0 $server || {
            cat serving
            exit 1
        }
        sleep 0.05
    done
}

stop_server() {
    kill -TERM $server
    wait $server || {
        cat serving
        exit 1
    }
}

# Three snapshots of ours: two while the origin is served and written, of which one is extended, and one afterwards.
ours() {
    serve_data
    quietly outboard volume snapshot create vg/data before --size 11M
    put 0 5
    quietly outboard volume snapshot create vg/data second --size 4M --chunk 64K --on B.img
    quietly outboard volume snapshot extend vg/second --size +12M
    put 20 2
    stop_server
    snapshot create vg/data third --size 6M --on C.img
    quietly outboard volume check $members
    echo "data:$(sum_of data):-"
    for name in before second third; do
        echo "$name:$(sum_of $name):$(tenths $name)"
    done
}

# A merge of ours that is killed. The origin reads as the snapshot from the first moment on.
begin() {
    expected=$(sum_of $1)
    before=$(tenths $1)
    # Each write takes its time, so that the merge is seen under way.
    outboard volume snapshot merge vg/$1 'delay(A.img, write=200ms)' B.img C.img >output 2>&1 &
    merge=$!
    until outboard volume snapshot list --json $members | grep -q merging && test $(tenths $1) -lt $before; do
        kill -0 $merge || {
            cat output
            exit 1
        }
        sleep 0.05
    done
    kill -9 $merge
    wait $merge || true
    test "$(sum_of data)" = $expected || {
        echo "the origin does not read as the snapshot that is merged"
        exit 1
    }
    echo $expected
}

# A merge that the server makes. It is over when the snapshot is gone.
merge_served() {
    expected=$(sum_of $1)
    serve_data
    quietly outboard volume snapshot merge vg/$1
    for _ in $(seq 600); do
        outboard volume snapshot list >list
        grep -q "vg/$1" list || break
        sleep 0.05
    done
    stop_server
    test "$(sum_of data)" = $expected || {
        echo "the origin does not read as the snapshot that was merged"
        exit 1
    }
    echo $expected
}

case $1 in
ours) ours ;;
merge-served) merge_served $2 ;;
begin) begin $2 ;;
merge)
    members=$(images AB)
    snapshot merge vg/$2
    ;;
remove) snapshot remove vg/$2 ;;
blank) blank $(images $2) ;;
pattern) pattern $2 ;;
read) read_group $2 $3 ;;
esac
