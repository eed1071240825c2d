# Arrays of levels 4, 5 and 6 that are written through us, the kernel's md runs: each layout, each kind of superblock, with
# and without a bitmap, written in pieces of all sizes. mdadm makes them; then
#
# * complete: the kernel assembles them without a resync, the data are what was written, and its check finds no parity that
#   does not fit (mismatch_cnt 0);
# * our server is killed: the kernel resyncs, and finds the same;
# * without a member that the kernel failed: the kernel reads what we wrote without it, takes the member in again, and finds
#   the same.
#
# The host writes the arrays on the images of disks A to F; the guest judges them.
#: outboard host
#: processors 1
#: disk A 4M
#: disk B 4M
#: disk C 4M
#: disk D 4M
#: disk E 4M
#: disk F 4M
#: timeout 900

. /guest/arrays.sh

# The array holds what was written, and parity fits.
good() {
    same "$name, $1, size and data" "$(size) $(sum /dev/md0)" "$expected"
    check
    echo "$name, $1: the kernel agrees"
}

# written VERSION LEVEL MEMBERS [OPTION…]
written() {
    version=$1 level=$2 letters=$3
    name="$*"
    shift 3
    host blank $letters
    disks=$(devices $letters)
    for disk in $disks; do
        blockdev --flushbufs $disk
    done
    quietly mdadm --create /dev/md0 --run --metadata=$version --name=photos --homehost=nas --level=$level \
        --raid-devices=${#letters} --assume-clean "$@" $disks
    stop
    expected=$(host write $letters 1)
    assemble
    same "$name, resync from" "$(md resync_start)" none
    good complete
    stop
    expected=$(host write $letters 2 killed)
    assemble
    good "after our server was killed"
    quietly mdadm /dev/md0 --fail /dev/vdb
    stop
    expected=$(host write $(echo $letters | tr -d B) 3)
    assembled=$disks
    disks=$(devices $(echo $letters | tr -d B))
    assemble --run
    same "$name, degraded, size and data" "$(size) $(sum /dev/md0)" "$expected"
    disks=$assembled
    quietly mdadm --zero-superblock /dev/vdb
    quietly mdadm /dev/md0 --add /dev/vdb
    idle
    good "without a member"
    stop
}

combination written 1.2 4 ABC --chunk=16 --bitmap=internal --bitmap-chunk=64K
combination written 0.90 4 ABCD --chunk=32
for layout in la ra ls rs parity-first parity-last; do
    combination written 1.2 5 ABCD --chunk=16 --layout=$layout --bitmap=internal --bitmap-chunk=64K
done
combination written 1.0 5 ABCDE --chunk=128 --bitmap=none
combination written 1.1 5 ABC --bitmap=internal
for layout in la ra ls rs parity-first parity-last ddf-zero-restart ddf-N-restart ddf-N-continue \
    left-asymmetric-6 right-asymmetric-6 left-symmetric-6 right-symmetric-6 parity-first-6; do
    combination written 1.2 6 ABCDE --chunk=16 --layout=$layout --bitmap=internal --bitmap-chunk=64K
done
combination written 1.0 6 ABCDEF --chunk=4 --layout=rs --bitmap=none
#: host
. "$SCRIPTS/arrays/host.sh"

case $1 in
blank)
    blank $(images $2)
    ;;
write)
    members=$(images $2) seed=$3
    serve "$(array "$members")"
    size=$(nbdinfo --size "$uri")
    if [ ! -e model ] || [ "$seed" = 1 ]; then
        head -c $size /dev/urandom >model
        quietly nbdcopy --flush model "$uri"
    fi
    writes $seed$size 0 $size 60 >list
    echo flush >>list
    write_both list
    if [ "${4-}" = killed ]; then
        kill -9 $server
        wait $server || true
    else
        finish
    fi
    echo "$size $(sum model)"
    ;;
esac
