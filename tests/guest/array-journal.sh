# Arrays of levels 5 and 6 with a journal (mdadm's --write-journal), cut while they are written. For superblocks 1.2 and 1.1 by
# mdadm, 1.2 and 1.0 by `outboard array create`:
#
# * we write such an array, and stop: the kernel assembles it, the data are what was written, and parity fits;
# * we are killed while we write: the kernel replays our journal, resyncs nothing, and parity fits; every write that was
#   acknowledged is there, also without as many members as the level can lose;
# * the kernel stops in the middle of its writes, in write-through and in write-back mode: we replay its journal, complete and
#   (write-through) without members. What was flushed is there, and where nothing is missing the kernel finds that parity fits.
#
# The guest stands still while the host looks: a copy of its images made then is what a power cut leaves. The host opens such
# copies, on disks F to J. The journals are on E and J.
#: outboard host
#: processors 1
#: disk A 12M
#: disk B 12M
#: disk C 12M
#: disk D 12M
#: disk E 12M
#: disk F 12M
#: disk G 12M
#: disk H 12M
#: disk I 12M
#: disk J 12M
#: disk PATTERN 8M
#: timeout 1200

. /guest/arrays.sh

policy() {
    same "$name, consistency policy" "$(md consistency_policy)" journal
}

resyncs() {
    dmesg | grep -c 'resync of RAID array' || true
}

# Writes the pattern piece by piece, each flushed, and notes how many pieces are there.
flushed() {
    piece=0
    while [ ! -e /tmp/enough ]; do
        dd if=/dev/vdk of=/dev/md0 bs=12k skip=$((piece % 512)) seek=$((piece % 512)) count=1 \
            conv=fsync,notrunc 2>/dev/null
        piece=$((piece + 1))
        # Never half of a number.
        echo $piece >/tmp/piece
        mv /tmp/piece /tmp/pieces
    done
}

# Writes random bytes behind the pattern, over and over.
unflushed() {
    while [ ! -e /tmp/enough ]; do
        dd if=/dev/urandom of=/dev/md0 bs=20k seek=400 count=100 conv=notrunc 2>/dev/null
    done
}

# killed LOST…: we are killed while we write, and disks of these letters are lost: the kernel goes on without.
killed() {
    before=$(resyncs)
    host kill
    disks=$(devices ABCDE)
    for lost; do
        disks=$(echo "$disks" | sed "s, */dev/vd$lost,,")
    done
    assemble --run
    policy
    same "$name, resync from" "$(md resync_start)" none
    expected=$(sum /dev/md0)
    for lost; do
        quietly mdadm --zero-superblock /dev/vd$lost
        quietly mdadm /dev/md0 --add /dev/vd$lost
    done
    disks=$(devices ABCDE)
    check
    same "$name, with all members" "$(sum /dev/md0)" "$expected"
    same "$name, resyncs" $(resyncs) $before
    stop
    host all_there
    echo "$name, we were killed, lost: ${*:-none}: the kernel agrees"
}

# stopped MODE LOST…: the kernel writes in that mode, and is cut each time; each time we replay without one of the disks.
stopped() {
    mode=$1
    shift
    assemble
    echo $mode >/sys/block/md0/md/journal_mode
    rm -f /tmp/enough
    echo 0 >/tmp/pieces
    flushed &
    unflushed &
    for without; do
        sleep 0.7
        host replay $(cat /tmp/pieces) $without
    done
    touch /tmp/enough
    wait
    echo write-through >/sys/block/md0/md/journal_mode
    stop
    # What we made of the last of them, of which nothing was missing.
    disks=$(devices FGHIJ)
    assemble
    policy
    check
    stop
    disks=$(devices ABCDE)
    echo "$name, the kernel stopped in $mode: the kernel agrees"
}

# journal MAKER LEVEL VERSION [OPTION…]: mdadm or outboard makes it.
journal() {
    name="$*" disks=$(devices ABCDE)
    maker=$1 level=$2 version=$3
    shift 3
    host blank
    for disk in $disks; do
        blockdev --flushbufs $disk
    done
    case $maker in
    mdadm)
        quietly mdadm --create /dev/md0 --run --metadata=$version --name=photos --homehost=nas --level=$level \
            --raid-devices=4 --assume-clean --write-journal /dev/vde "$@" $(devices ABCD)
        ;;
    outboard)
        host create $level $version "$@"
        assemble
        ;;
    esac
    policy
    stop

    expected=$(host write)
    assemble
    policy
    same "$name, resync from" "$(md resync_start)" none
    check
    same "$name, size and data" "$(size) $(sum /dev/md0)" "$expected"
    stop
    echo "$name, complete: the kernel agrees"

    killed
    case $level in
    5) killed b ;;
    6) killed b d ;;
    esac
    case $level in
    5) stopped write-through F G - ;;
    6) stopped write-through F,G H,I - ;;
    esac
    stopped write-back - -
}

combination journal mdadm 5 1.2 --chunk=64K
combination journal mdadm 6 1.1 --chunk=64K
combination journal outboard 6 1.2 --chunk=16K
combination journal outboard 5 1.0 --chunk=16K --layout=ra
#: host
. "$SCRIPTS/arrays/host.sh"
members=$(images ABCDE)

case $1 in
blank)
    head -c 8M /dev/urandom | dd of=PATTERN.img conv=notrunc status=none
    blank $members
    ;;
create)
    level=$2 version=$3
    shift 3
    quietly outboard array create $(images ABCD) --journal=E.img --level=$level --metadata=$version --name=photos \
        --assume-clean "$@"
    ;;
write)
    serve "$(array "$members")"
    size=$(nbdinfo --size "$uri")
    head -c $size /dev/urandom >model
    quietly nbdcopy --flush model "$uri"
    writes 1$size 0 $size 60 >list
    echo flush >>list
    write_both list
    finish
    echo "$size $(sum model)"
    ;;
kill)
    # What the kernel found, or we, is what there is.
    rm -f model
    quietly outboard copy "$(array "$members")" model --detect-zeroes never
    kill_while_written -e flush -e 'write -z'
    ;;
all_there)
    acknowledged_is_there
    ;;
replay)
    pieces=$2 lost=$3
    copy_members A-E F-J
    here=$copies run=
    for one in $(echo $lost | tr , ' '); do
        test $one = - || {
            here=$(without "$here" $one.img)
            run=', run=true'
        }
    done
    serve "$(array "$here" "$run")"
    quietly outboard array status photos --server $server
    grep -q 'consistency policy  *journal' said || {
        cat said
        exit 1
    }
    rm -f found
    quietly nbdcopy "$uri" found
    finish
    grep 'the journal was replayed' served || true
    test $pieces -lt 512 || pieces=512
    echo "$pieces pieces were flushed, lost: $lost"
    flushed_is_there $((pieces * 12288))
    if [ "$lost" = - ]; then
        quietly outboard array scrub $here
        cat said
    fi
    ;;
esac
