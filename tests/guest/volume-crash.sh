# After a loss of power a group is in the state before a change or after it, for LVM and the kernel, too, and everything
# that was flushed is there:
#
# * power is lost while we change the metadata, while the origin of a snapshot is written over NBD, and while extents
#   are moved; then LVM activates the group, mends what is left, continues the move, and reads what we had flushed;
# * the kernel stops in the middle of writes to the origin of a snapshot; we read the origin and the snapshot, merge the
#   snapshot, and the kernel reads that.
#
# Besides, xfs: on a volume of ours that we extend and of which we make a snapshot, checked by xfs_repair.
#
# Power is lost by pulling all disks at once, each with a write cache, the content of which is lost. The guest stands still
# while the host looks: a copy of its images made then is what a loss of power leaves. The host opens such a copy, on
# disk B.
#: outboard host
#: processors 1
#: disk A 48M
#: disk B 48M
#: disk C 48M
#: disk D 400M
#: disk E 400M
#: disk F 48M
#: disk PATTERN 64M
#: disk NOTES 1M
#: timeout 900

. /guest/volumes.sh
host pattern 64

# The first so many KiB of a volume.
begins() {
    dd if=/dev/mapper/vg-$1 bs=1k count=$2 2>/dev/null | md5sum | cut -d ' ' -f 1
}

# What a loss of power left is active, and mended by LVM.
mend() {
    disks=$(devices $1)
    reread $disks
    for disk in $disks; do
        lvm pvck --dump headers $disk >/tmp/output 2>&1 || true
        # A text that was written and not committed is what the change left.
        if grep -v 'precommit not empty' /tmp/output | grep -E 'CHECK|[Ii]nvalid|[Ee]rror'; then
            echo "pvck finds that on $disk"
            exit 1
        fi
    done
    # Disks with older metadata get the newest. Not on a group that is good: LVM 2.03.16 then writes a header with the
    # checksum of another text.
    lvm vgck vg >/tmp/output 2>&1 || quietly lvm vgck --updatemetadata vg
    quietly lvm vgchange -q -ay vg
}

# Metadata.
host blank ABC
expected=$(host create ABC)
interrupted=0
for cut in 1 2 3 4 5 6; do
    outcome=$(host change $cut)
    mend ABC
    same "cut $cut, the volume" "$(begins data 8192)" "$expected"
    size=$(blockdev --getsize64 /dev/mapper/vg-data)
    case "${outcome%% *} $size $(lvm lvs --noheadings -o lv_name vg | tr -d ' ' | tr '\n' ' ')" in
    "failed 8388608 data " | *" 12582912 data " | *" 8388608 data more ") ;;
    *)
        echo "cut $cut, after '$outcome': neither the old group nor the new one"
        lvm lvs vg
        exit 1
        ;;
    esac
    test ${outcome%% *} != failed || interrupted=$((interrupted + 1))
    echo "cut $cut, $outcome: $(lvm vgs --noheadings -o vg_seqno,lv_count,vg_free vg)"
    deactivate
done
test $interrupted -ge 2 || {
    echo "only $interrupted changes were cut"
    exit 1
}

# Snapshots.
for cut in 1 2 3; do
    host blank ABC
    expected=$(host create AB)
    outcome=$(host exceptions $cut)
    mend AB
    same "cut $cut, the snapshot" "$(sum /dev/mapper/vg-before)" "$expected"
    pieces=${outcome%% *}
    same "cut $cut, $pieces pieces" "$(begins data $((pieces * 64)))" "${outcome##* }"
    lvm lvs --noheadings -o data_percent vg/before
    deactivate
    echo "cut $cut: $pieces pieces of 64 KiB were flushed, and are there"
done

# Moves.
for cut in 1 2 3; do
    host blank ABC
    expected=$(host create ABC)
    outcome=$(host move $cut)
    mend ABC
    same "cut $cut, the volume during the move" "$(sum /dev/mapper/vg-data)" "$expected"
    quietly lvm pvmove -q -i 1
    same "cut $cut, the volume after the move" "$(sum /dev/mapper/vg-data)" "$expected"
    lvm lvs -a --noheadings -o lv_name vg >/tmp/volumes
    refuse grep pvmove /tmp/volumes
    deactivate
    echo "cut $cut, $outcome: the kernel has the data, and LVM continued what was left"
done

# The kernel stops.
group A
volume data 0 0 12 vg
quietly lvm lvcreate -q -y -s -n before -L 16M -c 4k vg/data
expected=$(sum /dev/mapper/vg-before)
rm -f /tmp/enough
echo 0 >/tmp/pieces
flushed() {
    piece=0
    while [ ! -e /tmp/enough ]; do
        dd if=/dev/vdg of=/dev/mapper/vg-data bs=64k skip=$((piece % 160 + 320)) seek=$((piece % 160)) count=1 \
            conv=fsync,notrunc 2>/dev/null
        piece=$((piece + 1))
        # Never half of a number.
        echo $piece >/tmp/piece
        mv /tmp/piece /tmp/pieces
    done
}
flushed &
for _ in 1 2 3; do
    sleep 1
    host stopped $(cat /tmp/pieces) $expected
done
touch /tmp/enough
wait
deactivate
# What we merged of the last of the three; its physical volume has the same id as the one on disk A.
configure '"a|/dev/vdb$|"'
reread /dev/vdb
quietly lvm vgck vg
quietly lvm vgchange -q -ay vg
same "the volume that we merged" "$(sum /dev/mapper/vg-data)" "$expected"
same "volumes" "$(lvm lvs --noheadings -a -o lv_name vg | tr -d ' ')" data
deactivate
configure "$accept"

# xfs.
modprobe xfs
host blank AB
host xfs-create
disks=$(devices DE)
reread $disks
quietly lvm vgchange -q -ay vg
quietly mkfs.xfs -q /dev/mapper/vg-data
mount /dev/mapper/vg-data /mnt
mkdir /mnt/folder
for file in 1 2 3 4 5 6 7 8; do
    dd if=/dev/vdg of=/mnt/folder/$file bs=64k skip=$((file * 30)) count=$file 2>/dev/null
done
(cd /mnt && md5sum folder/* >sums)
umount /mnt
deactivate
host xfs-change
reread $disks
quietly lvm vgck vg
quietly lvm vgchange -q -ay vg
same "size" "$(blockdev --getsize64 /dev/mapper/vg-data)" $((360 << 20))
quietly xfs_repair -n /dev/mapper/vg-data
quietly xfs_repair -n /dev/mapper/vg-before
mount -o ro,norecovery,nouuid /dev/mapper/vg-before /mnt
(cd /mnt && md5sum -c sums >/dev/null)
umount /mnt
mount /dev/mapper/vg-data /mnt
(cd /mnt && md5sum -c sums >/dev/null)
# The kernel writes on; the snapshot stays.
dd if=/dev/vdg of=/mnt/more bs=1M count=4 2>/dev/null
(cd /mnt && md5sum more >>sums)
umount /mnt
describe
deactivate
host xfs-merge
reread $disks
quietly lvm vgchange -q -ay vg
quietly xfs_repair -n /dev/mapper/vg-data
mount /dev/mapper/vg-data /mnt
(cd /mnt && md5sum -c sums >/dev/null)
test ! -e /mnt/more
umount /mnt
deactivate
echo "xfs: whole after an extension, a snapshot and a merge"
#: host
. "$SCRIPTS/volumes/host.sh"

# The images, each as a drive with a write cache that loses power when the file is there; writes take their time.
lossy() {
    for image in $1; do
        echo "delay(fault($image,cache=4M,pulled-while=pulled),write=$2)"
    done
}

# Loses power after some seconds, and waits until a process has ended.
lose_power() {
    sleep $2
    touch pulled
    result=done
    wait $1 || result=failed
    rm -f pulled
}

# Content goes to where it was, as the guest has the files open.
put_back() {
    for image in $1; do
        blank $image
        dd if=saved-$image of=$image bs=1M conv=sparse,notrunc status=none
    done
}

snapshot() {
    quietly outboard volume snapshot "$@"
}

# A group of ours with a volume that has the pattern.
create() {
    members=$(images $1)
    rm -f pulled
    quietly outboard volume create vg/data --disks $members --size 8M --extent-size 1M --force
    dd if=PATTERN.img of=content bs=1M count=8 status=none
    quietly outboard copy content "$(volume "$members" data)" --force
    for image in $members; do
        cp --sparse=always $image saved-$image
    done
    md5sum <content | cut -d ' ' -f 1
}

case $1 in
pattern) pattern $2 ;;
blank) blank $(images $2) ;;
create) create $2 ;;
change)
    members=$(images ABC)
    put_back "$members"
    case $(($2 % 2)) in
    0) command="volume extend vg/data --size +4M" ;;
    1) command="volume create vg/more --size 4M" ;;
    esac
    outboard $command $(lossy "$members" 150ms) --backup . >output 2>&1 &
    lose_power $! $(awk "BEGIN { print $2 * 0.35 }")
    echo "$result $command"
    ;;
exceptions)
    members=$(images AB)
    snapshot create vg/data before $members --size 12M
    rm -f socket
    outboard serve "data=$(volume "$(lossy "$members" 30ms)" data)" --listen unix:socket >served 2>&1 &
    server=$!
    until test -S socket; do
        kill -0 $server || {
            cat served
            exit 1
        }
        sleep 0.05
    done
    # Pieces that are acknowledged when they are durable.
    for piece in $(seq 0 127); do
        echo "write -f -P $((piece + 1)) $((piece * 65536)) 65536"
    done >list
    qemu-io -f raw "nbd+unix:///data?socket=$PWD/socket" <list >written 2>&1 &
    client=$!
    for _ in $(seq 600); do
        if grep -q 'wrote 65536' written; then break; fi
        sleep 0.1
    done
    sleep $(awk "BEGIN { print $2 * 0.5 }")
    touch pulled
    wait $client || true
    kill -KILL $server
    wait $server || true
    rm -f pulled
    pieces=$(grep -c 'wrote 65536' written || true)
    if [ $pieces = 0 ] || [ $pieces = 128 ]; then
        echo "$pieces pieces were written before power was lost"
        head written served
        exit 1
    fi
    for piece in $(seq $pieces); do
        printf '\0%.0s' $(seq 64) | tr '\0' "\\$(printf '%03o' $piece)" >unit
        for _ in $(seq 10); do
            cat unit unit >twice
            mv twice unit
        done
        cat unit
    done >model
    echo "$pieces pieces $(md5sum <model | cut -d ' ' -f 1)"
    ;;
move)
    members=$(images ABC)
    outboard volume move vg $(lossy "$members" 60ms) --from "$(lossy A.img 60ms)" --backup . >output 2>&1 &
    lose_power $! $(awk "BEGIN { print $2 * 0.4 }")
    echo "$result"
    ;;
stopped)
    pieces=$2
    blank B.img
    dd if=A.img of=B.img bs=1M conv=sparse,notrunc status=none
    quietly outboard volume check B.img
    rm -f found
    quietly outboard copy "$(volume B.img before)" found --detect-zeroes never
    same() {
        test "$2" = "$3" || {
            echo "$1: other data"
            exit 1
        }
    }
    same "the snapshot" "$(md5sum <found | cut -d ' ' -f 1)" $3
    rm -f found
    quietly outboard copy "$(volume B.img data)" found --detect-zeroes never
    test $pieces -lt 160 || pieces=160
    dd if=PATTERN.img of=model bs=64k skip=320 count=$pieces status=none
    cmp --bytes=$((pieces * 65536)) found model || {
        echo "something that was flushed is not there"
        exit 1
    }
    snapshot merge vg/before B.img
    quietly outboard volume check B.img
    echo "$pieces pieces were flushed, and are there; the snapshot is whole"
    ;;
xfs-create)
    quietly outboard volume create vg/data --disks D.img E.img --size 320M --stripes 2 --force
    ;;
xfs-change)
    quietly outboard volume extend vg/data D.img E.img --size +40M
    snapshot create vg/data before D.img E.img --size 60M
    ;;
xfs-merge) snapshot merge vg/before D.img E.img ;;
esac
