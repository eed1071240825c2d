# inspect says of arrays that the kernel's md made what mdadm --examine says of them, for each level and
# each kind of superblock, complete and after a member failed; and it changes nothing on them. What is on such
# arrays array-read.sh reads: here they are as small as can be, and hold little.
#: outboard
#: processors 1
#: timeout 600

for module in md-mod linear raid0 raid1 raid10 raid456; do
    modprobe $module
done
# KiB of each disk.
disk=5120
modprobe brd rd_nr=4 rd_size=$disk

# Runs both on a device.
ask() {
    ours=$(outboard inspect --json "$1" | tr ',{}[]' '\n\n\n\n\n')
    theirs=$(mdadm --examine --export "$1")
    details=$(mdadm --examine "$1")
}

# The first value of a name in the output of inspect.
told() {
    echo "$ours" | sed -n "/^\"$1\":/{s///; s/\"//g; p; q}"
}

# A value of mdadm.
examined() {
    echo "$theirs" | sed -n "s/^$1=//p"
}

# A value of mdadm for people.
detail() {
    echo "$details" | sed -n "s/ *$1//p"
}

same() {
    if [ "$2" != "$3" ]; then
        echo "$1: inspect says '$2', mdadm '$3'"
        mdadm --examine "$device"
        outboard inspect --json "$device"
        exit 1
    fi
}

wipe() {
    mdadm --stop /dev/md0 || true
    for device in $members; do
        dd if=/dev/zero of=$device bs=1M conv=fsync 2>/dev/null || true
    done
}

# These members of the array say the same to both, and so do all of them together.
compare() {
    for device; do
        cat $device >/tmp/before
        ask $device
        same level "$(told level)" "$(examined MD_LEVEL)"
        same uuid "$(told array)" "$(examined MD_UUID)"
        if [ "$version" != 0.90 ]; then
            same version "$(told version)" "$version"
            same name "$(told name)" "$(examined MD_NAME)"
            same events "$(told events)" "$(examined MD_EVENTS)"
            same updated "$(told updated)" "$(examined MD_UPDATE_TIME)"
            member=$(detail 'Device Role : Active device ')
            same role "$(told role)" "${member:-spare}"
            offset=$(echo "$details" | sed -n 's/ *Data Offset : \([0-9]*\) sectors/\1/p')
            same data_offset "$(told data_offset)" $((offset * 512))
        else
            same events "$(told events)" "$(detail 'Events : ')"
        fi
        cmp $device /tmp/before
    done
    whole=$(outboard inspect $members)
    echo "$whole" | grep ^array
}

# Changes something on the array.
write() {
    dd if=/dev/urandom of=/dev/md0 bs=64k count=2 conv=fsync 2>/dev/null
}

for version in 0.90 1.0 1.1 1.2; do
    levels=1
    test "$version" != 1.2 || levels="linear 0 1 4 5 6 10"
    for level in $levels; do
        case $level in
        linear | 0 | 1) members="/dev/ram0 /dev/ram1" ;;
        4 | 5) members="/dev/ram0 /dev/ram1 /dev/ram2" ;;
        *) members="/dev/ram0 /dev/ram1 /dev/ram2 /dev/ram3" ;;
        esac
        count=$(echo $members | wc -w)
        case $level in
        1) how=--assume-clean ;;
        linear | 0) how=--chunk=64 ;;
        *) how="--assume-clean --chunk=64" ;;
        esac
        mdadm --create /dev/md0 --run --quiet --metadata=$version --name=photos --homehost=nas \
            --level=$level --raid-devices=$count $how $members </dev/null
        write
        size=$(($(cat /sys/block/md0/size) * 512))
        mdadm --stop /dev/md0
        compare ${members%% *} ${members##* }
        case "$whole" in
        *" $count of $count members, complete, clean"*) ;;
        *) echo "level $level, $version: not complete"; exit 1 ;;
        esac
        case $level in
        linear | 0) ;;
        # An array's size is printed after those of its members.
        *) outboard inspect --json $members | grep -q "\"size\":$size,\"parts\"" ;;
        esac
        case $level in
        1 | 4 | 5 | 6 | 10)
            mdadm --assemble /dev/md0 --run $members
            mdadm /dev/md0 --fail /dev/ram1
            write
            mdadm --stop /dev/md0
            compare ${members%% *}
            case "$whole" in
            *" $((count - 1)) of $count members, degraded"*) ;;
            *) echo "level $level, $version: not degraded"; exit 1 ;;
            esac
            echo "$whole" | grep -E 'ram1 .*(stale|faulty)'
            ;;
        esac
        wipe 2>/dev/null
    done
done

members="/dev/ram0 /dev/ram1"
# What is on a mirror is seen without assembling it.
mdadm --create /dev/md0 --run --quiet --metadata=1.2 --name=photos --homehost=nas --level=1 \
    --raid-devices=2 /dev/ram0 /dev/ram1
mkfs.ext4 -q -L holiday /dev/md0
mdadm --stop /dev/md0
outboard inspect /dev/ram1 /dev/ram0
outboard inspect /dev/ram1 | grep 'md/photos .*ext4 "holiday"'
outboard inspect /dev/ram1 | grep 'missing .*member 0, not among these disks'
