# Extents that are moved to other disks. What we moved the kernel reads; a move that we were killed in LVM's pvmove finishes,
# and the other way round; a move of theirs that we end leaves each segment where its bytes are. The same of moves in a server
# that clients write to.
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
letters=ABCD disks=$(devices ABCD)

# The volumes that the host expects, as the kernel reads them; their filesystem is whole.
agree() {
    reread $disks
    quietly lvm vgck vg
    quietly lvm vgchange -q -ay vg
    for word in $1; do
        name=${word%%:*}
        same $name "$name:$(blockdev --getsize64 /dev/mapper/vg-$name):$(sum /dev/mapper/vg-$name)" "$word"
    done
    quietly e2fsck -fn /dev/mapper/vg-media
}

# Nothing lies on these disks, and no move is left.
empty() {
    for disk; do
        same "used on $disk" "$(lvm pvs --noheadings -o pv_used --units b $disk | tr -d ' ')" 0B
    done
    if lvm lvs -a --noheadings -o lv_name vg | grep pvmove; then
        echo "a move is left"
        exit 1
    fi
}

group ABCD
volumes=
quietly lvm lvcreate -q -y -n media -L 10M vg /dev/vda
quietly lvm lvcreate -q -y -n gap -L 3M vg /dev/vda
quietly lvm lvextend -q -L +5M vg/media /dev/vda
quietly mkfs.ext4 -q /dev/mapper/vg-media
fill gap 3 3
volume fast 0 10 8 -i 2 vg /dev/vda /dev/vdb
volume safe 1 20 5 --type raid1 -m 1 vg /dev/vda /dev/vdb
judged media 0
judged gap 0
judge start

# We move all of A while nothing uses it.
agree "$(host move A.img)"
empty /dev/vda
deactivate

# We are killed while we move it back, with some segments moved; LVM finishes that.
host interrupt C.img A.img
reread $disks
lvm lvs -a -o lv_name,lv_attr,devices vg
lvm lvs -a --noheadings -o lv_name vg | grep -q pvmove0
quietly lvm vgchange -q -ay vg
quietly lvm pvmove -q -i 1 /dev/vdc
agree "$(deactivate; host print)"
empty /dev/vdc
deactivate

# LVM is interrupted, with one segment moved; we finish that.
quietly lvm vgchange -q -ay vg
quietly lvm pvmove -q -b -i 100 /dev/vda /dev/vdd
lvm lvs -a -o lv_name,lv_attr,devices vg
quietly dmsetup remove_all
deactivate
agree "$(host resume)"
empty /dev/vda
deactivate

# LVM is interrupted again, and we end it.
quietly lvm vgchange -q -ay vg
quietly lvm pvmove -q -b -i 100 /dev/vdd /dev/vdc
quietly dmsetup remove_all
deactivate
agree "$(host abort)"
empty
deactivate

# We are killed, and LVM ends it.
host interrupt D.img A.img
reread $disks
quietly lvm vgchange -q -ay vg
quietly lvm pvmove -q --abort
agree "$(deactivate; host print)"
empty
volumes="fast:0 safe:1 media:0 gap:0"
judge end

# A server is killed while it moves extents and clients write media and gap; LVM finishes that.
deactivate
from=$(host live)
reread $disks
lvm lvs -a -o lv_name,lv_attr,devices vg
lvm lvs -a --noheadings -o lv_name vg | grep -q pvmove0
quietly lvm vgchange -q -ay --poll n vg
quietly lvm pvmove -q -i 1 $from
agree "$(deactivate; host print)"
empty $from
deactivate
#: host
. "$SCRIPTS/volumes/host.sh"

members=$(images ABCD)

# How many changes the group has seen.
sequence() {
    outboard volume status $members --json | sed 's/.*"sequence":\([0-9]*\),.*/\1/'
}

# What the volumes hold.
print() {
    sums
    quietly outboard volume check $members
}

sums() {
    for name in media gap fast safe; do
        rm -f found
        quietly outboard copy "$(volume "$members" $name)" found --detect-zeroes never
        echo "$name:$(stat -c %s found):$(md5sum <found | cut -d ' ' -f 1)"
    done
}

# The volumes hold what they held before; prints it.
unchanged() {
    print >after
    cmp before after
    cat after
}

# Has a server move all that is on the disk of media while clients write: media what it holds, gap something else. It is killed while it
# copies. Prints the disk as the guest calls it.
live() {
    export OUTBOARD_RUNTIME_DIR=$PWD/run
    for from in A B C D; do
        outboard volume move vg/media $members --from $from.img --dry-run >output 2>&1 && break
    done
    sums | grep -v ^gap: >before
    rm -f media content
    quietly outboard copy "$(volume "$members" media)" media --detect-zeroes never
    dd if=PATTERN.img of=content bs=1M skip=9 count=3 status=none
    begun=$(sequence) rounds=0
    outboard serve "media=$(volume "$members" media)" "gap=$(volume "$members" gap)" --listen unix:socket >serving 2>&1 &
    server=$!
    until test -S socket; do
        kill -0 $server
        sleep 0.05
    done
    outboard volume move vg --from $from.img --max-rate 1M --backup . >moving 2>&1 &
    mover=$!
    until [ $(sequence) -gt $begun ] && [ $rounds -ge 2 ]; do
        kill -0 $mover || {
            cat moving serving
            exit 1
        }
        rounds=$((rounds + 1))
        for name in media gap; do
            test $name = media && held=media || held=content
            quietly outboard copy $held "nbd+unix:///$name?socket=socket" --force
        done
    done
    kill -0 $mover
    kill -9 $server
    wait $server $mover || true
    sums | grep -v ^gap: >after
    cmp before after
    rm -f found
    quietly outboard copy "$(volume "$members" gap)" found --detect-zeroes never
    cmp content found
    echo /dev/vd$from | tr A-D a-d
}

case $1 in
live) live ;;
blank) blank $(images $2) ;;
pattern) pattern $2 ;;
read) read_group $2 $3 ;;
print) print ;;
move)
    print >before
    quietly outboard volume move vg $members --from $2 --dry-run
    quietly outboard volume move vg $members --from $2 --to C.img --to D.img
    unchanged
    ;;
interrupt)
    # The target is slow: the command is killed with a segment moved, and others not.
    sums >before
    slow="delay($3, write=300ms)" begun=$(sequence)
    outboard volume move vg $(without "$members" $3) "$slow" --from $2 --to "$slow" --backup . >output 2>&1 &
    mover=$!
    until [ $(sequence) -ge $((begun + 2)) ]; do
        kill -0 $mover
    done
    kill -9 $mover
    wait $mover || true
    # A change may have been cut off between two disks: the newest metadata count.
    sums >after
    cmp before after
    ;;
resume)
    print >before
    quietly outboard volume move vg $members
    unchanged
    ;;
abort)
    print >before
    quietly outboard volume move vg $members --abort
    unchanged
    ;;
esac
