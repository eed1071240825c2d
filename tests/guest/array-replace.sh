# A spare takes the place of a member that still works, begun by us or by the kernel's md, and ended by the other one. For
# mirrors, level 10, and levels 5 (with a bitmap, with partial parity logs) and 6:
#
# * what we replaced, the kernel assembles complete: the old member is faulty, and is not used;
# * a copy that we began, and were killed at, the kernel ends;
# * a copy that the kernel began, we end;
# * where the old member is missing then, the replacement is rebuilt in its place, with what is there already.
#
# What is written meanwhile goes to both. Afterwards the data are what was written, and the kernel's check finds no difference.
#: outboard host
#: processors 1
#: disk A 24M
#: disk B 24M
#: disk C 24M
#: disk D 24M
#: disk E 24M
#: disk PATTERN 16M
#: timeout 600

. /guest/arrays.sh

# The array holds what the model does, on all members. It is read before the kernel has ended what it copies.
good() {
    same "$name, $1" "$(sum /dev/md0)" "$(host sum)"
    check
    echo "$name, $1: the kernel agrees"
}

# replaced LEVEL MEMBERS SPARE [OPTION…]
replaced() {
    name="$*" letters=$2 spare=$(device $3)
    host begin "$@"
    rest=$(devices $(echo $letters | tr -d B))

    # Ours, to the end.
    host replace B $3
    disks="$rest $spare"
    assemble
    good "replaced by us"
    stop

    # Ours begins to put B back, and is killed.
    host begin_to_replace $3 B
    disks="$rest /dev/vdb $spare"
    assemble
    good "a copy of ours, ended by the kernel"
    same "$name, the old member" "$(cat /sys/block/md0/md/dev-${spare#/dev/}/state)" faulty
    quietly mdadm /dev/md0 --remove $spare

    # The kernel begins, ours ends it.
    quietly mdadm --zero-superblock $spare
    quietly mdadm /dev/md0 --add $spare
    idle
    echo 16384 >/sys/block/md0/md/sync_max
    quietly mdadm /dev/md0 --replace /dev/vdb --with $spare
    for _ in $(seq 100); do
        read done _ </sys/block/md0/md/sync_completed
        test "$done" != 16384 || break
        sleep 0.1
    done
    same "$name, copied" "$done" 16384
    put 1000 100
    put 12000 50
    echo idle >/sys/block/md0/md/sync_action
    stop
    host end_replacing $3
    disks="$rest $spare"
    assemble
    good "a copy of the kernel's, ended by us"
    stop

    # Ours begins, and the old member is missing then.
    host begin_to_replace $3 B
    disks="$rest /dev/vdb"
    assemble --run --force
    idle
    good "a copy of ours, and the old member missing"
    stop
}

combination replaced 1 AB C
combination replaced 10 ABCD E --layout=n2 --chunk=64K
combination replaced 5 ABC D --chunk=16K --consistency-policy=bitmap
combination replaced 5 ABC D --chunk=64K --consistency-policy=ppl
combination replaced 6 ABCD E --chunk=16K --consistency-policy=bitmap --metadata=1.0
#: host
. "$SCRIPTS/arrays/host.sh"

# Adds a spare to the members, and begins to replace one with it.
begin_to_replace() {
    old=$1.img new=$2.img
    blank $new
    serve "$(array "$members")"
    ask add --disk "$3"
    ask replace --member $old --with "$3"
}

case $1 in
begin)
    level=$2 members=$(images $3)
    # Behind the letter of the spare.
    shift 4
    make_array --assume-clean "$@"
    ;;
sum | put)
    of_model "$@"
    ;;
replace)
    begin_to_replace $2 $3 $PWD/$3.img
    writes 1 0 9000000 60 >list
    write_both list
    ask wait
    outboard array status photos --server $server >said
    grep -q "$2.img .*took its place" said && grep -q "complete" said || {
        cat said
        exit 1
    }
    ask remove --member $2.img
    finish
    blank $2.img
    members="$(without "$members" $2.img) $3.img"
    echo "$members" >members
    equal "$(array "$members")"
    ;;
begin_to_replace)
    begin_to_replace $2 $3 "throttle($PWD/$3.img, bytes=1M/s)"
    # A write waits for what the copy has in flight at the slow member: 3 to 4 MiB of 22 pass with each.
    writes 2 0 3000000 2 >list
    write_both list
    # What is written as done was flushed: a server that is stopped well says how far it came.
    finish
    mdadm --examine $3.img >said
    grep -q 'Recovery Offset' said && grep -q 'Replacement' said || {
        cat said
        echo "$3 was copied in no time, or not at all"
        exit 1
    }
    members="$(without "$members" $2.img) $3.img"
    echo "$members" >members
    ;;
end_replacing)
    mdadm --examine $2.img | grep 'Recovery Offset'
    serve "$(array "$members $2.img")"
    writes 6 0 9000000 20 >list
    write_both list
    ask wait
    finish
    mdadm --examine $2.img | grep 'Recovery Offset' && exit 1
    blank B.img
    members="$(without "$members" B.img) $2.img"
    echo "$members" >members
    equal "$(array "$members")"
    ;;
esac
