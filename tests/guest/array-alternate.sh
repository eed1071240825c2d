# Arrays of levels 5 and 6 are used by us and by the kernel's md in turns, ten times each. In every turn one side fails a member and
# writes without it, and the other side takes it back by the bitmap: odd turns fail it here, even ones there.
#
# After every turn the array has all members, the kernel's check finds no parity that does not fit (mismatch_cnt 0), and the data are what was
# written. At the end a filesystem that was made on it through the kernel is whole.
#: outboard host
#: processors 1
#: disk A 12M
#: disk B 12M
#: disk C 12M
#: disk D 12M
#: disk E 12M
#: disk PATTERN 16M
#: timeout 600
#: long

. /guest/arrays.sh

# turns LEVEL MEMBERS [OPTION…]
turns() {
    name="$*" level=$1 letters=$2
    shift 2
    disks=$(devices $letters)
    host begin $level $letters "$@"
    assemble
    quietly mkfs.ext4 -q -b 1024 /dev/md0 4M
    stop
    host takes_over 4096
    for turn in 1 2 3 4 5 6 7 8 9 10; do
        member=$(echo $letters | cut -c $((turn % ${#letters} + 1)))
        if [ $((turn % 2)) = 1 ]; then
            host fails $member $turn
            all=$disks disks=$(devices $(echo $letters | tr -d $member))
            assemble --run
            disks=$all
            quietly mdadm /dev/md0 --re-add $(device $member)
        else
            assemble
            quietly mdadm /dev/md0 --fail $(device $member)
            quietly mdadm /dev/md0 --remove $(device $member)
            put $((4200 + turn * 300)) 200
            stop
            host takes_back $member
            assemble
        fi
        good "turn $turn"
        stop
    done
    assemble
    dd if=/dev/md0 of=/tmp/filesystem.img bs=64k count=64 2>/dev/null
    quietly e2fsck -fn /tmp/filesystem.img
    stop
}

turns 5 ABCD --chunk=16K --consistency-policy=bitmap
turns 6 ABCDE --chunk=16K --consistency-policy=bitmap
#: host
. "$SCRIPTS/arrays/host.sh"

case $1 in
begin)
    level=$2 members=$(images $3)
    shift 3
    make_array --assume-clean --bitmap=64K "$@"
    ;;
size | sum | put)
    of_model "$@"
    ;;
takes_over)
    # What the guest made in the first KiB of the array goes to the model.
    rm -f found
    quietly outboard copy "$(array "$members")" found --detect-zeroes never
    dd if=found of=model bs=1k count=$2 conv=notrunc status=none
    ;;
fails)
    serve "$(array "$members")"
    ask fail --member $2.img
    writes $3 4300000 9000000 30 >list
    write_both list
    finish
    ;;
takes_back)
    left=$(without "$members" $2.img)
    quietly outboard array re-add $left --run --disk $2.img
    equal "$(array "$members")"
    ;;
esac
