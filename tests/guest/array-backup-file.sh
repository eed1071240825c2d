# An array without free space before its data gets another chunk or layout from us, with a backup file:
#
# * what we reshaped, the kernel assembles;
# * the server is killed at some moment of it, or stopped; mdadm restores the rows that were being moved from our file, and the kernel ends it.
#
# The data are what was written, and the kernel's check finds no difference. The file is sent through the disk BACKUP. mdadm's own reshapes of this
# kind are not here: with mdadm 4.2 and this kernel its file had rows as they were after the kernel had moved them.
#: outboard host
#: processors 1
#: disk A 10M
#: disk B 10M
#: disk C 10M
#: disk D 10M
#: disk E 10M
#: disk PATTERN 16M
#: disk BACKUP 40M
#: timeout 900
#: long

. /guest/arrays.sh

# Where mdadm has the file.
file=/tmp/rows.bak

# Ours, to the end: to_the_end LEVEL MEMBERS FORM [OPTION…]
to_the_end() {
    name="ours, $*" level=$1 letters=$2 form=$3
    shift 3
    host begin $level $letters "$@"
    host reshape $form
    disks="$(devices $letters)"
    assemble
    good "reshaped by us"
    stop
}

# Ours, ended by HOW (KILL, TERM) after so many ms: cut_ours HOW MS LEVEL MEMBERS FORM [OPTION…]
cut_ours() {
    how=$1 after=$2 level=$3 letters=$4 form=$5
    shift 5
    name="ours, level $level, $form, $how after $after ms"
    host begin $level $letters "$@"
    host cut_reshape $how $after $form
    blockdev --flushbufs /dev/vdg
    cat /dev/vdg >$file
    disks="$(devices $letters)"
    for disk in $disks; do
        blockdev --flushbufs $disk
    done
    # It restores rows, and starts the array; mdadm 4.2 crashes then, before it goes on with the reshape.
    mdadm --assemble /dev/md0 --backup-file=$file $disks </dev/null || true
    if [ "$(cat /proc/mdstat | grep -c reshape)" = 1 ]; then
        quietly mdadm --grow --continue /dev/md0 --backup-file=$file
    fi
    idle
    # mdadm may go on watching the array of this name, and bounds a check, too.
    killall -q mdadm || true
    echo max >/sys/block/md0/md/sync_max
    good "ended by the kernel"
    stop
    rm -f $file
}

to_the_end 5 ABC --chunk,16K --chunk=64K --metadata=1.0 --consistency-policy=bitmap
to_the_end 6 ABCDE --layout,left-asymmetric --chunk=64K --metadata=0.90 --consistency-policy=resync
cut_ours KILL 300 5 ABC --chunk,32K --chunk=64K --metadata=1.0 --consistency-policy=bitmap
cut_ours KILL 700 6 ABCD --chunk,16K --chunk=64K --metadata=0.90 --consistency-policy=resync
cut_ours TERM 500 5 ABC --layout,right-symmetric --chunk=64K --metadata=1.0 --consistency-policy=bitmap
host cuts
#: host
. "$SCRIPTS/arrays/host.sh"

case $1 in
begin)
    level=$2 members=$(images $3)
    shift 3
    rm -f rows.bak
    make_array --assume-clean "$@"
    ;;
size | sum | put)
    of_model "$@"
    ;;
reshape)
    serve "$(array "$members")"
    ask grow $(echo $2 | tr , ' ') --backup-file rows.bak
    writes 1 0 9000000 60 >list
    write_both list
    ask wait
    test ! -e rows.bak || {
        echo "the file is still there"
        exit 1
    }
    finish
    equal "$(array "$members")"
    ;;
cut_reshape)
    serve_slowly
    ask grow $(echo $4 | tr , ' ') --backup-file rows.bak
    sleep 0.$(printf %03d $3)
    kill -$2 $server
    wait $server || true
    mdadm --examine $first | grep "Reshape pos'n" >>cuts || echo "none: it had ended" >>cuts
    dd if=rows.bak of=BACKUP.img bs=64k conv=notrunc status=none
    ;;
cuts)
    cat cuts
    places=$(grep -c "pos'n" cuts)
    test $places -ge 2 || {
        echo "only $places were in the midst of it"
        exit 1
    }
    ;;
esac
