# Arrays that get another level, by us or by the kernel's md, and are used by the other one then:
#
# * what we changed, while it was written or as files, the kernel assembles: it finds no difference, and the same data;
# * what `mdadm --grow --level` changed, we open.
#: outboard host
#: processors 1
#: disk A 24M
#: disk B 24M
#: disk C 24M
#: disk D 24M
#: disk E 24M
#: disk PATTERN 16M
#: timeout 300

. /guest/arrays.sh

# What we changed has that level and layout, and is whole: changed LEVEL LAYOUT MEMBERS COMMAND…
changed() {
    level=$1 layout=$2 letters=$3
    shift 3
    name="$*"
    host "$@"
    disks="$(devices $letters)"
    assemble
    same "$name, level" "$(md level)" $level
    test $layout = - || same "$name, layout" "$(md layout)" $layout
    case $level in
    raid0)
        same "$name, bytes" "$(size)" "$(host size)"
        same "$name, data" "$(sum /dev/md0)" "$(host sum)"
        ;;
    *) good "changed by us" ;;
    esac
    put 900 100
}

# The kernel changes the level, and ours opens that: taken_over MEMBERS COMMAND…, with the array assembled
taken_over() {
    letters=$1
    shift
    name="kernel: $*"
    quietly "$@"
    idle
    put 3000 200
    stop
    host opened $letters
    echo "$name: ours agrees"
}

host begin 5 ABC --chunk=64K --consistency-policy=ppl
changed raid6 18 ABCD in_use D 6
# And back.
taken_over ABCD mdadm --grow /dev/md0 --level=5 --raid-devices=3
# The kernel goes on with the rebuild.
host begin 5 ABC --chunk=64K --bitmap=internal
changed raid6 18 ABCD begun D 6
stop
host begin 6 ABCD --chunk=16K --layout=left-asymmetric-6 --bitmap=internal
changed raid5 0 ABCD in_use - 5
taken_over ABCD mdadm --grow /dev/md0 --level=6 --raid-devices=4 --layout=preserve
host usual ABCD
assemble
name="the usual layout"
same "$name" "$(md layout)" 2
good "reshaped by us"
stop

host begin 0 AB --chunk=16K
changed raid5 5 ABC as_files C 5
stop
changed raid4 - ABC in_use - 4
stop
changed raid0 - AB as_files - 0
taken_over AB sh -c 'echo raid4 >/sys/block/md0/md/level'
host begin 1 AB --bitmap=internal
changed raid5 2 AB as_files - 5
taken_over AB mdadm --grow /dev/md0 --level=1
host begin 1 AB --bitmap=internal
assemble
taken_over AB mdadm --grow /dev/md0 --level=5
changed raid1 - AB as_files - 1
stop
#: host
. "$SCRIPTS/arrays/host.sh"

# With what comes, without what leaves.
with() {
    members=$(images $1)
    echo "$members" >members
}

case $1 in
begin)
    level=$2 members=$(images $3)
    shift 3
    case $level in
    0) ;;
    *) set -- --assume-clean "$@" ;;
    esac
    make_array "$@"
    ;;
size | sum | put)
    of_model "$@"
    ;;
in_use)
    serve "$(array "$members")"
    writes 1 0 9000000 20 >list
    write_both list
    ask_for $2 --level,$3
    writes 2 0 9000000 40 >list
    write_both list
    ask wait
    finish
    with_new $2
    equal "$(array "$members")"
    ;;
begun)
    serve_slowly
    ask_for $2 --level,$3
    sleep 1
    writes 5 0 9000000 5 >list
    write_both list
    finish
    mdadm --examine $2.img >said
    grep -q "Recovery Offset" said || {
        cat said
        echo "it was rebuilt in no time, or not at all"
        exit 1
    }
    with_new $2
    equal "$(array "$members")"
    ;;
as_files)
    quietly outboard array grow $members --level $3
    # Members that were released have no superblock.
    test $3 != 0 || members=${members% *}
    test $2 = - || {
        quietly outboard array add $members --disk $2.img
        members="$members $2.img"
    }
    echo "$members" >members
    equal "$(array "$members")"
    serve "$(array "$members")"
    writes 3 0 9000000 10 >list
    write_both list
    finish
    ;;
opened)
    with $2
    serve "$(array "$members")"
    writes 4 0 9000000 10 >list
    write_both list
    finish
    equal "$(array "$members")"
    ;;
usual)
    with $2
    serve "$(array "$members")"
    ask grow --layout left-symmetric
    ask wait
    finish
    equal "$(array "$members")"
    ;;
esac
