# An array with parity gets another form while it is used, begun by us or by the kernel's md, and ended by the other one:
#
# * what we reshaped, the kernel assembles, with its new size;
# * a reshape that we began, and stopped, the kernel goes on with;
# * a reshape that the kernel began, we go on with, while the array is written.
#
# What is written meanwhile is there. Afterwards the data are what was written, what is new holds zeroes, and the kernel's check finds
# no difference. The same of arrays of which the members were enlarged. Arrays with superblocks 0.90 and 1.0 have nothing free before their data, and
# get members with a backup of their first rows on the new ones.
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

# The letters of the members, and of those that are new (`-`: none).
together() {
    echo "$1$2" | tr -d -
}

# reshaped LEVEL MEMBERS NEW FORM [OPTION…], the form with commas for spaces
reshaped() {
    name="$*" level=$1 letters=$2 new=$3 form=$4
    shift 4

    # Ours, to the end.
    host begin $level $letters "$@"
    host reshape $new $form
    disks="$(devices $(together $letters $new))"
    assemble
    good "reshaped by us"
    stop

    # Ours begins, the kernel ends it.
    host begin $level $letters "$@"
    host begin_to_reshape $new $form
    assemble
    put 700 300
    good "a reshape of ours, ended by the kernel"
    put 12000 50
    stop
}

# The kernel begins, ours ends it: grown LEVEL MEMBERS SPARE COUNT [OPTION…]
grown() {
    name="kernel: $*" level=$1 letters=$2 new=$3 count=$4
    shift 4
    host begin $level $letters "$@"
    disks="$(devices $letters)"
    assemble
    begin_to_grow $new $count
    sleep 2
    same "$name, at work" "$(md sync_action)" reshape
    put 1000 100
    disks="$(devices $letters$new)"
    stop
    at_full_speed
    host end_reshape $new
    assemble
    good "a reshape of the kernel's, ended by us"
    stop
}

# Members that were enlarged, all of which we use then: enlarged LEVEL MEMBERS [OPTION…]
enlarged() {
    name="enlarged: $*" disks="$(devices $2)"
    host enlarge "$@"
    assemble
    good "as large as its members"
    put 16000 100
    stop
}

combination enlarged 1 AB --consistency-policy=bitmap
combination enlarged 5 ABC --chunk=64K --consistency-policy=ppl
combination enlarged 6 ABCD --chunk=16K --consistency-policy=bitmap
combination reshaped 5 ABC D --devices,4 --chunk=64K --consistency-policy=bitmap
combination reshaped 5 ABC D --devices,4,--chunk,32K,--layout,left-asymmetric --chunk=16K --consistency-policy=ppl
combination reshaped 6 ABCD E --devices,5 --chunk=16K --consistency-policy=resync
combination reshaped 4 ABC D --devices,4 --chunk=16K --metadata=1.1 --consistency-policy=bitmap
combination reshaped 5 ABCD - --layout,right-symmetric --chunk=16K --consistency-policy=bitmap
combination reshaped 5 ABC D --devices,4 --chunk=16K --metadata=1.0 --consistency-policy=bitmap
combination reshaped 6 ABCD E --devices,5 --chunk=16K --metadata=0.90 --consistency-policy=resync
combination grown 5 ABC D 4 --chunk=64K --consistency-policy=bitmap
combination grown 5 ABC D 4 --chunk=16K --metadata=0.90 --consistency-policy=resync
combination grown 6 ABCD E 5 --chunk=16K --metadata=1.0 --consistency-policy=bitmap
combination grown 6 ABCD E 5 --chunk=16K --consistency-policy=bitmap
#: host
. "$SCRIPTS/arrays/host.sh"

case $1 in
begin)
    level=$2 members=$(images $3)
    shift 3
    make_array --assume-clean "$@"
    ;;
enlarge)
    level=$2 members=$(images $3)
    shift 3
    echo "$members" >members
    blank A.img B.img C.img D.img E.img
    truncate -s 16M $members
    quietly outboard array create $members --level=$level --name=photos --assume-clean "$@"
    truncate -s 24M $members
    serve "$(array "$members")"
    head -c $(nbdinfo --size "$uri") /dev/urandom >model
    quietly nbdcopy model "$uri"
    ask size
    writes 3 0 9000000 20 >list
    write_both list
    ask wait
    grow_model
    finish
    equal "$(array "$members")"
    ;;
size | sum | put)
    of_model "$@"
    ;;
reshape)
    serve "$(array "$members")"
    ask_for $2 $3
    writes 1 0 9000000 60 >list
    write_both list
    ask wait
    outboard array status photos --server $server >said
    grep -q "complete" said || {
        cat said
        exit 1
    }
    grow_model
    finish
    with_new $2
    equal "$(array "$members")"
    ;;
begin_to_reshape)
    serve_slowly
    ask_for $2 $3
    sleep 1
    writes 2 0 3000000 5 >list
    write_both list
    finish
    mdadm --examine $first >said
    grep -q "Reshape pos'n" said || {
        cat said
        echo "it was reshaped in no time, or not at all"
        exit 1
    }
    with_new $2
    # What is read of both halves.
    equal "$(array "$members")"
    model_as_announced
    ;;
end_reshape)
    with_new $2
    mdadm --examine $2.img | grep "Reshape pos'n"
    serve "$(array "$members")"
    writes 6 0 9000000 20 >list
    write_both list
    ask wait
    grow_model
    finish
    mdadm --examine $2.img | grep "Reshape pos'n" && exit 1
    equal "$(array "$members")"
    ;;
esac
