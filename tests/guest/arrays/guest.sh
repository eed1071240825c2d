# For scripts about arrays, in the guest: what several of them ask of the kernel's md. Disks of the host are
# /dev/vda and on, and called A and on.

for module in virtio_blk md-mod linear raid0 raid1 raid10 raid456; do
    modprobe $module
done

# The devices of these letters.
devices() {
    echo "$*" | tr A-Z a-z | sed 's,[a-z],/dev/vd& ,g'
}

# The device of one letter.
device() {
    devices $1 | tr -d ' '
}

# Whether a combination is to be run: each is, unless HALF is 0 or 1, which is every second one.
is_due() {
    combinations=$((${combinations-0} + 1))
    test -z "${HALF-}" || test $((combinations % 2)) = "$HALF"
}

# Runs a combination if it is to be run.
combination() {
    if is_due; then
        "$@"
    fi
}

# Says what differs, and ends.
same() {
    test "$2" = "$3" || {
        echo "$1: '$2' instead of '$3'"
        cat /proc/mdstat
        mdadm --examine $disks
        exit 1
    }
}

# Runs a program with output that matters only when it fails.
quietly() {
    "$@" </dev/null >/tmp/said 2>&1 || {
        echo "$*"
        cat /tmp/said /proc/mdstat
        mdadm --examine $disks
        exit 1
    }
}

# The kernel assembles $disks, or those given. What the host changed is read again.
assemble() {
    for disk in $disks; do
        blockdev --flushbufs $disk
    done
    quietly mdadm --assemble /dev/md0 "$@" $disks
}

stop() {
    quietly mdadm --stop /dev/md0
}

md() {
    cat /sys/block/md0/md/$1
}

idle() {
    for _ in $(seq 2400); do
        case $(md sync_action) in
        idle | frozen) return ;;
        esac
        sleep 0.05
    done
    echo "md0 is not done with its $(md sync_action)"
    cat /proc/mdstat
    exit 1
}

# Whether the kernel finds that nothing is missing and all copies are identical.
check() {
    idle
    same "$name, missing" "$(md degraded)" 0
    echo check >/sys/block/md0/md/sync_action
    idle
    same "$name, mismatches" "$(md mismatch_cnt)" 0
}

size() {
    echo $(($(cat /sys/block/md0/size) * 512))
}

# As the host's `sum`: md5 finds a difference as well as the others, in a third of the emulated processor's time.
sum() {
    md5sum <$1 | cut -d ' ' -f 1
}

# The kernel begins to reshape the array, slowly, to so many members with a new one: begin_to_grow NEW COUNT
begin_to_grow() {
    quietly mdadm /dev/md0 --add $(device $1)
    echo 1500 >/proc/sys/dev/raid/speed_limit_max
    echo 1000 >/proc/sys/dev/raid/speed_limit_min
    quietly mdadm --grow /dev/md0 --raid-devices=$2
}

# The kernel copies as fast as it can again.
at_full_speed() {
    echo 200000 >/proc/sys/dev/raid/speed_limit_max
}

# Sectors that were written to a device since the machine started.
written() {
    cat /sys/block/${1#/dev/}/stat | tr -s ' ' | cut -d ' ' -f 8
}

# mdadm makes the same array with the same superblocks: VERSION LEVEL MEMBERS [OPTION…] as `outboard array create` has
# them, of an array that is clean. The host has noted what it says of ours.
alike() {
    version=$1 level=$2 letters=$3
    shift 3
    options= bitmap=internal
    for option; do
        case $option in
        --bitmap=none) bitmap=none ;;
        # Instead of a bitmap.
        --consistency-policy=ppl) bitmap=none options="$options $option" ;;
        --bitmap=*) options="$options --bitmap-chunk=${option#*=}" ;;
        *) options="$options $option" ;;
        esac
    done
    case $level in
    linear | 0) ;;
    *) options="$options --assume-clean --bitmap=$bitmap" ;;
    esac
    if [ $version-$level = 0.90-0 ]; then
        # mdadm makes no such array any more.
        return
    fi
    quietly mdadm --create /dev/md0 --run --metadata=$version --name=photos --homehost=nas --level=$level \
        --raid-devices=${#letters} $options $disks
    stop
    host alike $letters
}

# Writes so many KiB at that KiB through the kernel, the host does so to its model.
put() {
    dd if=/dev/vdf of=/dev/md0 bs=1k skip=$2 seek=$1 count=$2 conv=fsync,notrunc 2>/dev/null
    host put $1 $2
}

# The array has the size of the model, and holds what that does, on all members.
good() {
    idle
    same "$name, $1, bytes" "$(size)" "$(host size)"
    same "$name, $1" "$(sum /dev/md0)" "$(host sum)"
    check
    echo "$name, $1: the kernel agrees"
}
