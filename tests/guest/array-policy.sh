# The consistency policy of arrays of level 5 is changed, by us and by mdadm in turn: the other one finds what was chosen, what was
# written is there, and parity fits.
#
# * we give an array a bitmap, partial parity logs and neither, while it is served: the kernel has it so, and resyncs nothing;
# * mdadm takes its logs away, and gives it some: we keep what it chose, and change that again.
#: outboard host
#: processors 1
#: disk A 12M
#: disk B 12M
#: disk C 12M
#: disk D 12M
#: timeout 600

. /guest/arrays.sh

# found POLICY: the kernel has this one, the data are what was written, and parity fits.
found() {
    assemble
    same "$name, consistency policy" "$(md consistency_policy)" $1
    mdadm --detail /dev/md0 | grep -q "Consistency Policy : $1" || {
        echo "$name: mdadm --detail does not say $1"
        mdadm --detail /dev/md0
        exit 1
    }
    same "$name, resync from" "$(md resync_start)" none
    check
    same "$name, data" "$(sum /dev/md0)" "$expected"
    dd if=/dev/urandom of=/dev/md0 bs=20k count=40 conv=notrunc,fsync 2>/dev/null
    expected=$(sum /dev/md0)
}

# from POLICY VERSION [OPTION…]: we make it, with this one.
from() {
    name="$*" disks=$(devices ABCD)
    for disk in $disks; do
        blockdev --flushbufs $disk
    done
    expected=$(host create "$@")
    found $1
    stop
}

# becomes POLICY: we give it this one, while it is served.
becomes() {
    expected=$(host becomes $1)
    found $1
    stop
}

# kernel POLICY: mdadm gives it this one, and we find it.
kernel() {
    assemble
    quietly mdadm --grow /dev/md0 --consistency-policy=$1
    same "$name, by mdadm" "$(md consistency_policy)" $1
    stop
    expected=$(host keeps $1)
    found $1
    stop
}

# Its bad block log lies where mdadm has room for logs of its own.
from ppl 1.2 --chunk=64K
becomes bitmap
becomes ppl
kernel resync
kernel ppl
becomes resync
becomes ppl
echo "$name: the kernel agrees"

from bitmap 1.1 --chunk=16K
becomes ppl
kernel resync
becomes bitmap
echo "$name: the kernel agrees"
#: host
. "$SCRIPTS/arrays/host.sh"
members=$(images ABCD)

# Writes somewhere, so that the array is used by the policy that it has; its data then.
used() {
    serve "$(array "$members")"
    size=$(nbdinfo --size "$uri")
    test -z "$1" || ask grow --consistency-policy $1
    rm -f model
    quietly nbdcopy "$uri" model
    writes 1$size 0 $size 60 >list
    echo flush >>list
    write_both list
    finish
    sum model
}

case $1 in
create)
    blank $members
    quietly outboard array create $members --level=5 --metadata=$3 --name=photos --assume-clean \
        --consistency-policy=$2 $4
    used ''
    ;;
becomes)
    used $2
    ;;
keeps)
    outboard array status $members >said
    grep -q 'consistency policy  *ppl' said && has=ppl || has=resync
    test $has = $2 || {
        cat said
        exit 1
    }
    used ''
    ;;
esac
