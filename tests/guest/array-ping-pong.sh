# We and the kernel's md go on with what the other left. For mirrors and each layout of level 10:
#
# * a member that we failed, the kernel takes back by our bitmap, copying little;
# * a member that the kernel failed, we take back by its bitmap, copying little;
# * a recovery that one of us began and did not finish, the other one ends, also one by the bitmap, in both directions;
# * so it is with superblocks 0.90, which do not record how far a recovery is: it begins again;
# * a mirror that we gave another copy the kernel runs with three;
# * who is to be read last, and failed at once, we and the kernel report to each other;
# * bad blocks that the kernel noted are not read by us; what we write around them, the kernel finds.
#
# Afterwards the data are what was written, and the kernel's check finds no two copies that differ.
#: outboard host
#: processors 1
#: disk A 24M
#: disk B 24M
#: disk C 24M
#: disk D 24M
#: disk PATTERN 16M
#: timeout 600

. /guest/arrays.sh

# Writes so many KiB at that KiB through the kernel, the host does so to its model.
put() {
    dd if=/dev/vde of=/dev/md0 bs=1k skip=$2 seek=$1 count=$2 conv=fsync,notrunc 2>/dev/null
    host put $1 $2
}

# The array holds what the model does, on all members.
good() {
    same "$name, $1" "$(sum /dev/md0)" "$(host sum)"
    check
    echo "$name, $1: the kernel agrees"
}

# The kernel begins to take B in again, and comes to that sector.
begin_recovery() {
    quietly mdadm /dev/md0 --fail /dev/vdb
    quietly mdadm /dev/md0 --remove /dev/vdb
    put 300 200
    put 5000 1000
    echo $1 >/sys/block/md0/md/sync_max
    test $2 = --re-add || quietly mdadm --zero-superblock /dev/vdb
    quietly mdadm /dev/md0 $2 /dev/vdb
    for _ in $(seq 100); do
        read done _ </sys/block/md0/md/sync_completed
        test "$done" != $1 || break
        sleep 0.1
    done
    same "$name, recovered" "$done" $1
}

# turn LEVEL MEMBERS [OPTION…]
turn() {
    name="$*" old=
    case $name in
    *0.90*) old=yes ;;
    esac
    all=$(devices $2) few=$(devices $(echo $2 | tr -d B))
    host begin "$@"
    # A member's sectors.
    whole=$(cat /sys/block/vdb/size)

    # Ours fails, the kernel re-adds.
    host degrade B
    disks=$few
    assemble --run
    same "$name, missing" "$(md degraded)" 1
    before=$(written /dev/vdb)
    quietly mdadm /dev/md0 --re-add /dev/vdb
    idle
    copied=$(($(written /dev/vdb) - before))
    echo "$name: the kernel wrote $copied sectors of $whole to bring B back"
    test $copied -lt $((whole / 4))
    good "failed by us, re-added by the kernel"

    # The kernel fails, ours re-adds.
    quietly mdadm /dev/md0 --fail /dev/vdb
    quietly mdadm /dev/md0 --remove /dev/vdb
    put 100 300
    put 9000 260
    stop
    host re_add B
    disks=$all
    assemble
    good "failed by the kernel, re-added by us"

    # Ours begins to recover a blank member and is killed, the kernel ends it.
    stop
    host recover add B
    assemble
    good "a recovery of ours, ended by the kernel"
    stop
    host recover re-add B
    assemble
    good "a recovery by the bitmap of ours, ended by the kernel"

    # The kernel begins, ours ends it.
    begin_recovery 16384 --add
    # What is written meanwhile goes to the new member too, where it holds something already.
    put 1000 100
    stop
    host finish_recovery $old
    assemble
    good "a recovery of the kernel's, ended by us"
    if [ "$old" ]; then
        stop
        return
    fi
    # Level 10 of Linux 6.1 does not stop at a sector when it goes by the bitmap.
    if [ "${name%% *}" = 1 ]; then
        begin_recovery 4096 --re-add
        put 1000 100
        stop
        host finish_bitmap
        assemble
        good "a recovery by the bitmap of the kernel's, ended by us"
    fi

    # Bad blocks.
    # Sectors of the disk, as the kernel counts them.
    from=$(md dev-vda/offset)
    echo "$((from + 2048)) 16" >/sys/block/md0/md/dev-vda/bad_blocks
    echo "$((from + 4104)) 8" >/sys/block/md0/md/dev-vdb/bad_blocks
    # Their log is written with the next change of the superblock.
    put 9000 1
    stop
    host bad $((from + 2048)) $((from + 4104))
    # What we wrote there, the kernel finds.
    disks=$all
    assemble
    same "$name, bad blocks" "$(sum /dev/md0)" "$(host sum)"
    stop
    echo "$name, bad blocks: obeyed"
}

combination turn 1 AB
combination turn 1 ABC --metadata=1.0
combination turn 10 ABCD --layout=n2 --chunk=64K
combination turn 10 ABC --layout=f2 --chunk=64K
combination turn 10 ABCD --layout=o2 --chunk=64K --metadata=1.1
combination turn 1 AB --metadata=0.90

# grown [OPTION…]: we make three copies of two, the kernel runs them.
grown() {
    name="grown $*" disks=$(devices ABC)
    host begin 1 AB "$@"
    host grow
    assemble
    same "$name, parts" "$(md raid_disks)" 3
    good "three copies"
    stop
    host shrink
    disks=$(devices AB)
    assemble
    same "$name, parts" "$(md raid_disks)" 2
    good "two copies again"
    stop
}
grown
grown --metadata=1.0
grown --metadata=0.90

# flags VERSION: what superblocks record of single members.
flags() {
    name="flags $1" disks=$(devices AB)
    host flagged $1
    assemble
    for flag in write_mostly failfast; do
        grep -q $flag /sys/block/md0/md/dev-vdb/state
    done
    if grep -q write_mostly /sys/block/md0/md/dev-vda/state; then
        exit 1
    fi
    stop
    quietly mdadm --create /dev/md0 --run --metadata=$1 --level=1 --raid-devices=2 --assume-clean \
        --failfast /dev/vda --write-mostly /dev/vdb
    dd if=/dev/vde of=/dev/md0 bs=1M count=8 conv=fsync 2>/dev/null
    stop
    host obeyed
    echo "$name: ours are the kernel's, and the reverse"
}
flags 1.2
#: host
. "$SCRIPTS/arrays/host.sh"

case $1 in
begin)
    level=$2 members=$(images $3)
    shift 3
    test -s PATTERN.img && test "$(head -c 8 PATTERN.img | tr -d '\0')" ||
        head -c 16M /dev/urandom | dd of=PATTERN.img conv=notrunc status=none
    echo "$members" >members
    blank $members
    quietly outboard array create $members --level=$level --name=photos --bitmap=64K --assume-clean "$@"
    serve "$(array "$members")"
    size=$(nbdinfo --size "$uri")
    head -c $size /dev/urandom >model
    quietly nbdcopy model "$uri"
    finish
    ;;
sum | put)
    of_model "$@"
    ;;
degrade)
    serve "$(array "$members")"
    # Something before, too: what the bitmap says of it is no more true of the member that fails.
    writes 1 1000000 1500000 10 >list
    write_both list
    ask fail --member $2.img
    writes 2 0 500000 20 >list
    write_both list
    writes 3 8000000 9000000 20 >list
    write_both list
    finish
    ;;
re_add)
    # A byte outside of the bitmap's dirty chunks shows whether everything was copied. It is put back.
    at=$((20 << 20))
    dd if=$2.img of=kept bs=512 skip=$((at / 512)) count=1 status=none
    echo spoilt | dd of=$2.img bs=512 seek=$((at / 512)) conv=notrunc status=none
    left=$(without "$members" $2.img)
    quietly outboard array re-add $left --run --disk $2.img
    cat said
    dd if=$2.img bs=512 skip=$((at / 512)) count=1 status=none | grep -q -a spoilt || {
        echo "all of $2 was copied"
        exit 1
    }
    dd if=kept of=$2.img bs=512 seek=$((at / 512)) conv=notrunc status=none
    equal "$(array "$members")"
    ;;
recover)
    # A member fails, and takes its place again, blank or as it is: slowly, and not to the end.
    image=$3.img
    serve "$(array "$members")"
    ask fail --member $image
    finish
    serve "$(array "$(without "$members" $image)" ", run=true")"
    writes 4 2000000 9000000 100 >list
    write_both list
    rate=2M/s
    if [ $2 = add ]; then
        blank $image
        rate=8M/s
    fi
    ask $2 --disk "throttle($PWD/$image, bytes=$rate)"
    sleep 0.7
    kill -KILL $server
    mdadm --examine $image | grep -E 'Recovery Offset|Feature' || true
    case $(mdadm --examine $image) in
    *"Version : 0.90"*) exit 0 ;;
    esac
    # Neither done nor given up.
    for looked in A.img $image; do
        mdadm --examine $looked >said
        grep -q 'Array State : AA' said && grep -q -E 'Recovery Offset|Active device 0' said || {
            cat said
            echo "$image was recovered in no time, or not at all"
            exit 1
        }
    done
    ;;
finish_recovery)
    test "${2-}" || mdadm --examine B.img | grep 'Recovery Offset'
    serve "$(array "$members")"
    writes 6 0 9000000 20 >list
    write_both list
    ask wait
    finish
    mdadm --examine B.img | grep 'Recovery Offset' && exit 1
    equal "$(array "$members")"
    # B holds everything: A can be missing.
    equal "$(array "$(without "$members" A.img)" ", run=true")"
    ;;
finish_bitmap)
    mdadm --examine B.img | grep 'Recovery Offset'
    # A byte outside of the bitmap's dirty chunks shows whether everything was copied. It is put back.
    at=$((20 << 20))
    dd if=B.img of=kept bs=512 skip=$((at / 512)) count=1 status=none
    echo spoilt | dd of=B.img bs=512 seek=$((at / 512)) conv=notrunc status=none
    serve "$(array "$members")"
    ask wait
    finish
    dd if=B.img bs=512 skip=$((at / 512)) count=1 status=none | grep -q -a spoilt || {
        echo "all of B was copied"
        exit 1
    }
    dd if=kept of=B.img bs=512 seek=$((at / 512)) conv=notrunc status=none
    equal "$(array "$members")"
    equal "$(array "$(without "$members" A.img)" ", run=true")"
    ;;
grow)
    blank C.img
    quietly outboard array grow A.img B.img --copies=3
    quietly outboard array add A.img B.img --run --disk=C.img
    echo "A.img B.img C.img" >members
    ;;
shrink)
    quietly outboard array fail A.img B.img C.img --member=C.img
    quietly outboard array grow A.img B.img --run --copies=2
    echo "A.img B.img" >members
    ;;
flagged)
    blank A.img B.img
    quietly outboard array create A.img B.img --level=1 --metadata=$2 --assume-clean --failfast \
        --write-mostly B.img
    ;;
obeyed)
    outboard array status A.img B.img --json >said
    # By part, and B is the second one.
    tr -d ' \n' <said | grep -q '"name":"A.img","part":0,"state":"in_sync","write_mostly":false,"fail_fast":true'
    tr -d ' \n' <said | grep -q '"name":"B.img","part":1,"state":"in_sync","write_mostly":true,"fail_fast":true'
    # What is on B is not read while A can be: it is spoilt here.
    rm -f model
    outboard copy "array(A.img, run=true)" model --detect-zeroes never
    dd if=/dev/urandom of=B.img bs=1M seek=4 count=4 conv=notrunc status=none
    equal "array(A.img, B.img)"
    ;;
bad)
    # What lies there is spoilt: it is not to be read.
    head -c 8192 /dev/zero | tr '\0' x | dd of=A.img bs=512 seek=$2 conv=notrunc status=none
    head -c 4096 /dev/zero | tr '\0' x | dd of=B.img bs=512 seek=$3 conv=notrunc status=none
    equal "$(array "$members")"
    serve "$(array "$members")"
    writes 7 0 9000000 40 >list
    write_both list
    finish
    equal "$(array "$members")"
    ;;
esac
