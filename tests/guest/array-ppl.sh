# Arrays of level 5 with partial parity logs (mdadm's consistency policy ppl), cut while they are written. For two sizes of
# chunks, and for superblocks 1.1 and 1.2 by mdadm, 1.0 by `outboard array create`:
#
# * we write such an array, and stop: the kernel assembles it, the data are what was written, and parity fits;
# * we are killed while we write: the kernel replays our logs, resyncs nothing, and parity fits; every write that was
#   acknowledged is there, also without a member, which the kernel starts by our logs;
# * the kernel stops in the middle of its writes: we replay its logs, complete and without a member. What was flushed is
#   there, and where nothing is missing the kernel finds that parity fits.
#
# The guest stands still while the host looks: a copy of its images made then is what a power cut leaves. The host opens such
# copies, on disks E to H.
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
#: disk PATTERN 8M
#: timeout 900

. /guest/arrays.sh

policy() {
    same "$name, consistency policy" "$(md consistency_policy)" ppl
}

# Writes the pattern piece by piece, each flushed, and notes how many pieces are there.
flushed() {
    piece=0
    while [ ! -e /tmp/enough ]; do
        dd if=/dev/vdi of=/dev/md0 bs=12k skip=$((piece % 512)) seek=$((piece % 512)) count=1 \
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

# ppl MAKER VERSION [OPTION…]: mdadm or outboard makes it.
ppl() {
    name="$*" all=$(devices ABCD)
    disks=$all
    maker=$1 version=$2
    shift 2
    host blank
    for disk in $disks; do
        blockdev --flushbufs $disk
    done
    case $maker in
    mdadm)
        quietly mdadm --create /dev/md0 --run --metadata=$version --name=photos --homehost=nas --level=5 \
            --raid-devices=4 --assume-clean --consistency-policy=ppl "$@" $disks
        ;;
    outboard)
        host create $version "$@"
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

    # A log that is cut in the middle of a turn makes the kernel resync all: not each time.
    for try in 1 2 3 4; do
        host kill
        before=$(dmesg | grep -c 'resync of RAID array' || true)
        assemble
        check
        stop
        host all_there
        echo "$name, we were killed: the kernel agrees"
        resyncs=$(($(dmesg | grep -c 'resync of RAID array' || true) - before))
        echo "resyncs: $resyncs"
        test $resyncs -gt 0 || break
    done
    same "$name, resyncs with our logs" $resyncs 0

    host kill
    disks=$(devices ACD)
    assemble --run
    dmesg | grep -q 'starting dirty degraded array with PPL' || {
        echo "$name: the kernel did not start it by its logs"
        dmesg | tail -n 20
        exit 1
    }
    expected=$(sum /dev/md0)
    quietly mdadm --zero-superblock /dev/vdb
    quietly mdadm /dev/md0 --add /dev/vdb
    disks=$all
    check
    same "$name, rebuilt" "$(sum /dev/md0)" "$expected"
    stop
    host all_there
    echo "$name, we were killed, and a member is missing: the kernel agrees"

    assemble
    rm -f /tmp/enough
    echo 0 >/tmp/pieces
    flushed &
    unflushed &
    for without in E F -; do
        sleep 0.7
        host replay $(cat /tmp/pieces) $without
    done
    touch /tmp/enough
    wait
    stop
    # What we made of the last of them, of which nothing was missing.
    disks=$(devices EFGH)
    assemble
    policy
    check
    stop
    echo "$name, the kernel stopped: the kernel agrees"
}

ppl mdadm 1.2 --chunk=64K
ppl mdadm 1.1 --chunk=16K --layout=ra
ppl outboard 1.0 --chunk=16K
#: host
. "$SCRIPTS/arrays/host.sh"
members=$(images ABCD)

case $1 in
blank)
    head -c 8M /dev/urandom | dd of=PATTERN.img conv=notrunc status=none
    blank $members
    ;;
create)
    quietly outboard array create $members --level=5 --metadata=$2 --name=photos --assume-clean \
        --consistency-policy=ppl $3
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
    for image in $members; do
        mdadm --examine $image | grep -q 'State : active' || {
            echo "$image: killed, but clean"
            exit 1
        }
    done
    ;;
all_there)
    acknowledged_is_there
    ;;
replay)
    pieces=$2 without=$3
    copy_members A-D E-H
    mdadm --examine E.img | grep -E '^ *State :'
    here=$(without "$copies" $without.img)
    run=
    test "$without" = - || run=', run=true'
    serve "$(array "$here" "$run")"
    quietly outboard array status photos --server $server
    grep -q 'consistency policy  *ppl' said || {
        cat said
        exit 1
    }
    ask wait
    rm -f found
    quietly nbdcopy "$uri" found
    finish
    grep 'partial parity logs' served || true
    test $pieces -lt 512 || pieces=512
    echo "$pieces pieces were flushed"
    flushed_is_there $((pieces * 12288))
    for copy in $here; do
        mdadm --examine $copy | grep -E -q 'State : (active|dirty)' && {
            echo "$copy: replayed, but not clean"
            exit 1
        }
    done
    if [ "$without" = - ]; then
        quietly outboard array scrub $here
        cat said
    fi
    ;;
esac
