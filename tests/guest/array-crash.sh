# After a crash the copies of an array differ where it was being written: the next open resyncs
# them, after a crash of ours and of the kernel's md. For mirrors with and without a bitmap and each
# layout of level 10:
#
# * our server is killed while four clients write: the kernel resynchronises, its check then finds nothing,
#   and every write that was acknowledged is there;
# * the kernel stops in the middle of its writes: we resynchronise, the kernel's check then finds nothing, and
#   everything that was flushed is there.
#
# The guest stands still while the host looks: a copy of its images made then is what a power cut leaves. The
# host opens such copies, on disks E to H.
#: outboard host
#: processors 1
#: disk A 24M
#: disk B 24M
#: disk C 24M
#: disk D 24M
#: disk E 24M
#: disk F 24M
#: disk G 24M
#: disk H 24M
#: disk PATTERN 8M
#: timeout 600

. /guest/arrays.sh

# Writes the pattern piece by piece, each flushed, and notes how many pieces are there.
flushed() {
    piece=0
    while [ ! -e /tmp/enough ]; do
        dd if=/dev/vdi of=/dev/md0 bs=64k skip=$((piece % 128)) seek=$((piece % 128)) count=1 \
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
        dd if=/dev/urandom of=/dev/md0 bs=256k seek=48 count=16 conv=notrunc 2>/dev/null
    done
}

# crash LEVEL MEMBERS [OPTION…]
crash() {
    name="$*" disks=$(devices $2)
    host begin "$@"

    # Ours is killed.
    host kill
    assemble
    idle
    # Nothing is left to do; it may have been done before the first look.
    check
    stop
    host all_there
    echo "$name, we were killed: the kernel agrees"

    # The kernel stops.
    assemble
    rm -f /tmp/enough
    echo 0 >/tmp/pieces
    flushed &
    unflushed &
    for _ in 1 2 3; do
        sleep 1.3
        host resync $(cat /tmp/pieces)
    done
    touch /tmp/enough
    wait
    stop
    # What we made of the last of the three.
    disks=$(devices $(echo $2 | tr A-D E-H))
    assemble
    check
    stop
    echo "$name, the kernel stopped: the kernel agrees"
}

crash 1 AB --bitmap=64K
crash 1 ABC --bitmap=none --metadata=1.0
crash 10 ABCD --layout=n2 --chunk=64K --bitmap=64K
crash 10 ABC --layout=f2 --chunk=64K --bitmap=64K
crash 10 ABC --layout=o2 --chunk=64K --bitmap=none
crash 1 AB --metadata=0.90
#: host
. "$SCRIPTS/arrays/host.sh"

# Whether the copies of an array lie at the same places of all members.
is_mirror() {
    test "$(cat level)" = 1
}

case $1 in
begin)
    level=$2 members=$(images $3)
    shift 3
    echo "$members" >members
    echo "$level" >level
    head -c 8M /dev/urandom | dd of=PATTERN.img conv=notrunc status=none
    blank $members
    quietly outboard array create $members --level=$level --name=photos --assume-clean "$@"
    serve "$(array "$members")"
    size=$(nbdinfo --size "$uri")
    head -c $size /dev/urandom >model
    quietly nbdcopy model "$uri"
    finish
    ;;
kill)
    kill_while_written flush
    for image in $members; do
        mdadm --examine $image | grep -E 'State : active|State : dirty' || {
            echo "$image: killed, but clean"
            exit 1
        }
    done
    ;;
all_there)
    acknowledged_is_there
    ;;
resync)
    pieces=$2
    copy_members A-D E-H
    mdadm --examine E.img | grep -E '^ *State :'
    if is_mirror && mdadm --examine E.img | grep -q -E 'State : active' && [ $pieces -gt 0 ]; then
        # Some bytes that were being written reached only one member.
        offset=$(mdadm --examine F.img | sed -n 's/ *Data Offset : \([0-9]*\) sectors/\1/p')
        head -c 4096 /dev/urandom |
            dd of=F.img bs=512 seek=$((${offset:-0} + 13 * 2048)) conv=notrunc status=none
    fi
    serve "$(array "$copies")"
    ask wait
    rm -f found
    quietly nbdcopy "$uri" found
    finish
    test $pieces -lt 128 || pieces=128
    echo "$pieces pieces were flushed"
    flushed_is_there $((pieces * 65536))
    for copy in $copies; do
        mdadm --examine $copy | grep -E -q 'State : (active|dirty)' && {
            echo "$copy: resynchronised, but not clean"
            exit 1
        }
    done
    quietly outboard array scrub $copies
    cat said
    ;;
esac
