# New arrays of levels 4, 5 and 6, by `outboard array create` on disks that were used before, the kernel's md runs: layouts
# of each family, each kind of superblock, with and without a bitmap, with partial parity logs. (array-parity.sh has each layout.)
#
# * Synced by us, and written: mdadm assembles them without a resync, the data are what was written, and the kernel's check
#   finds no parity that does not fit (mismatch_cnt 0). mdadm makes the same superblocks.
# * Before any sync: the kernel does it, and its check finds the same. mdadm begins in the same way: with --force, where
#   all members are there; as we do of those that are missing.
# * With members missing: usable at once. The kernel reads what we wrote, rebuilds the rest, and finds the same.
# * A filesystem made and filled through us is whole on the kernel's array.
#
# The host makes and writes the arrays on the images of disks A to F; the guest judges them.
#: outboard
#: disk A 4M
#: disk B 4M
#: disk C 4M
#: disk D 4M
#: disk E 4M
#: disk F 4M
#: disk G 48M
#: disk H 48M
#: disk I 48M
#: processors 1
#: timeout 900

. /guest/arrays.sh

# The array holds what was written, and parity fits.
good() {
    same "$name, size and data" "$(size) $(sum /dev/md0)" "$expected"
    check
    echo "$name: the kernel agrees"
}

# made VERSION LEVEL MEMBERS [OPTION…]: we make, sync and write it.
made() {
    name="$*"
    disks=$(devices $3)
    expected=$(host make "$@")
    assemble
    same "$name, resync from" "$(md resync_start)" none
    case $* in
    *--consistency-policy=ppl*) same "$name, consistency policy" "$(md consistency_policy)" ppl ;;
    esac
    good
    stop
    alike "$@"
}

# The members of `A-C`, without those that are missing.
present() {
    echo $1 | tr -d -
}

# Adds disks, one after the other.
add() {
    for disk in $(devices ${1-}); do
        blockdev --flushbufs $disk
        mdadm --zero-superblock --force $disk >/dev/null 2>&1 || true
        quietly mdadm /dev/md0 --add $disk
        idle
    done
}

# `A-C` as devices, and `missing`.
listed() {
    echo $1 | sed 's/-/missing /g; s,[A-Z],/dev/vd& ,g' | tr A-Z a-z
}

# mdadm makes an array like that, of disks that were used before.
mdadm_begins() {
    version=$1 level=$2 members=$3
    shift 3
    bitmap=--bitmap=internal
    case $* in
    *--consistency-policy=ppl*) bitmap= ;;
    esac
    quietly mdadm --create /dev/md0 --run --metadata=$version --name=photos --homehost=nas --level=$level \
        --raid-devices=${#members} $bitmap "$@" $(listed $members)
}

# begins VERSION LEVEL MEMBERS ABSENT [OPTION…]: we only make it, mdadm begins in the same way, and the kernel syncs ours;
# in MEMBERS a - is one that is missing.
begins() {
    options="$1 $2 $3" members=$3 absent=$4
    name="$*, before any sync"
    shift 4
    disks=$(devices $(present $members))
    host begin $options "$@"
    force=
    test -n "${members##*-*}" && force=--force
    # Read-only until it is written: nothing is synced, and superblocks stay as they were made.
    echo 1 >/sys/module/md_mod/parameters/start_ro
    mdadm_begins $options $force "$@"
    stop
    echo 0 >/sys/module/md_mod/parameters/start_ro
    host begun $(present $members)
    host begin $options "$@"
    assemble
    idle
    add $absent
    check
    echo "$name: the kernel agrees"
    stop
}

# rebuilds VERSION LEVEL MEMBERS ABSENT [OPTION…]: the same where a spare is rebuilt at once, by the kernel: it ends with the
# same as of an array that mdadm made.
rebuilds() {
    options="$1 $2 $3" members=$3 absent=$4
    name="$*, before any sync"
    shift 4
    disks=$(devices $(present $members))
    host begin $options "$@"
    assemble
    idle
    same "$name, missing" "$(md degraded)" 1
    stop
    host examined $(present $members)
    assemble
    add $absent
    check
    stop
    host fill $(present $members)
    mdadm_begins $options "$@"
    idle
    stop
    host alike $(present $members)
    echo "$name: the kernel agrees"
}

# resyncs VERSION LEVEL MEMBERS [OPTION…]: we only make it, with partial parity logs, and the kernel syncs it. It is not compared with one
# that mdadm begins: the kernel writes the superblocks of that at once, also where it is read-only.
resyncs() {
    name="$*, resynced by the kernel"
    disks=$(devices $3)
    host begin "$@"
    assemble
    same "$name, consistency policy" "$(md consistency_policy)" ppl
    idle
    same "$name, resync from" "$(md resync_start)" none
    check
    echo "$name: the kernel agrees"
    stop
}

# degraded VERSION LEVEL MEMBERS ABSENT [OPTION…]: we make and write it without some members, the kernel adds disks.
degraded() {
    name="$*"
    disks=$(devices $(present $3))
    expected=$(host degraded "$@")
    assemble
    same "$name, degraded, size and data" "$(size) $(sum /dev/md0)" "$expected"
    add $4
    good
    stop
}

combination made 1.2 4 ABC --chunk=16K --bitmap=64K
combination made 0.90 4 ABCD --chunk=32K
for layout in la ra parity-last; do
    combination made 1.2 5 ABCD --chunk=16K --layout=$layout --bitmap=64K
done
combination made 1.2 5 ABC
combination made 1.0 5 ABCDE --chunk=128K --bitmap=none
combination made 1.1 5 AB --chunk=64K
for version in 1.0 1.1 1.2; do
    combination made $version 5 ABC --chunk=16K --consistency-policy=ppl
done
combination made 0.90 5 ABCD --chunk=64K
for layout in parity-first ddf-zero-restart ddf-N-continue left-symmetric-6 parity-first-6; do
    combination made 1.2 6 ABCDE --chunk=16K --layout=$layout --bitmap=64K
done
combination made 1.0 6 ABCDEF --chunk=4K --layout=rs --bitmap=none
combination made 0.90 6 ABCD --chunk=64K

combination begins 1.2 4 ABC '' --chunk=16K
combination begins 1.2 5 ABCD '' --chunk=16K
combination begins 1.0 6 ABCD '' --chunk=16K
combination begins 1.2 5 A-C B --chunk=16K
combination rebuilds 1.2 6 A-CD B --chunk=16K
for version in 1.0 1.2; do
    resyncs $version 5 ABCD --chunk=16K --consistency-policy=ppl
done

combination degraded 1.2 5 A-CD B --chunk=16K
combination degraded 1.2 5 A-CD B --chunk=16K --consistency-policy=ppl
combination degraded 0.90 4 AB- C --chunk=16K
combination degraded 1.2 6 -B-DE AC --chunk=16K
combination degraded 1.1 6 A-CD B --chunk=16K

# What is on a filesystem, by checksum.
contents() {
    (cd /mnt && find . -type f | sort | xargs md5sum) >$1
}

# filesystem MEMBERS [OPTION…]: made and filled through us while the first sync is under way, whole on the kernel's array.
filesystem() {
    name="ext4 on $*" disks=$(devices $1)
    shift
    outboard array create $disks "$@"
    device=$(outboard attach "array($(echo $disks | sed 's/ /, /g'))")
    mkfs.ext4 -q $device
    mount -t ext4 $device /mnt
    cp /bin/busybox /mnt/
    dd if=/dev/urandom of=/mnt/random bs=64k count=64 conv=fsync 2>/dev/null
    contents /tmp/written
    umount /mnt
    outboard detach $device
    assemble
    e2fsck -fn /dev/md0
    mount -t ext4 -o ro /dev/md0 /mnt
    contents /tmp/found
    cmp /tmp/written /tmp/found
    umount /mnt
    check
    stop
    echo "$name: the kernel agrees"
}

modprobe ext4
modprobe fuse
modprobe loop
filesystem GHI --level=5
#: host
. "$SCRIPTS/arrays/host.sh"

# Fills images with what a disk holds that was used before.
fill() {
    for image; do
        test -e used.$image || head -c $(stat -c %s $image) /dev/urandom >used.$image
        dd if=used.$image of=$image bs=1M conv=notrunc status=none
    done
}

# create VERSION LEVEL "IMAGE…" [OPTION…]: makes it of images that were used before.
create() {
    version=$1 level=$2 images=$3
    shift 3
    fill $(echo $images | sed 's/missing//g')
    quietly outboard array create $images --level=$level --metadata=$version --name=photos "$@"
}

# Members like `A-C` as images, and `missing`.
listed() {
    echo $1 | sed 's/-/missing /g; s/[A-Z]/&.img /g'
}

# The images of these.
present() {
    images $(echo $1 | tr -d -)
}

# Serves these, writes to them and to the model what is there and more, and says what it is.
write() {
    serve "$(array "$*")"
    rm -f model
    quietly nbdcopy "$uri" model
    size=$(stat -c %s model)
    writes $size 0 $size 60 >list
    write_both list
    finish
    echo "$size $(sum model)"
}

case $1 in
make)
    members=$(images $4) version=$2 level=$3
    shift 4
    create $version $level "$members" "$@"
    quietly outboard array wait $members
    write $members
    examined $members
    ;;
begin)
    members=$4 version=$2 level=$3
    shift 4
    create $version $level "$(listed $members)" "$@"
    examined $(present $members)
    ;;
degraded)
    members=$4 version=$2 level=$3
    shift 5
    create $version $level "$(listed $members)" "$@"
    write $(present $members)
    ;;
fill)
    fill $(images $2)
    ;;
examined)
    examined $(images $2)
    ;;
begun)
    # On a busy machine the kernel has ended its sync before it is stopped, and the array is clean. That a sync of ours is due
    # shows afterwards: members hold anything until the kernel has made it, and its check would find that.
    for image in $(images $2); do
        sed -i '/ State : /d' $image.ours
        examine $image | sed '/ State : /d' | diff $image.ours - || {
            echo "$image: ours (<) is not what mdadm makes (>)"
            exit 1
        }
    done
    ;;
alike)
    alike $(images $2)
    ;;
esac
