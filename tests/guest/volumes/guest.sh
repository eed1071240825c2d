# For scripts about volumes, in the guest: how groups are made, filled and described. Disks of the host are
# /dev/vda and on, and called A and on. G is PATTERN, which has its sector number all over each sector; H is
# NOTES, which carries text to the host.

for module in virtio_blk ext4 dm-mod dm-mirror dm-raid dm-snapshot dm-thin-pool dm-cache dm-cache-smq \
    dm-zero; do
    modprobe $module
done
mkdir -p /run/lvm /run/lock/lvm /etc/lvm
export LVM_SUPPRESS_FD_WARNINGS=1 DM_DISABLE_UDEV=1

# Settings of LVM, where $1 accepts the disks. It keeps no list of them: the host makes physical volumes, too.
configure() {
    cat >/etc/lvm/lvm.conf <<CONF
devices { scan_lvs = 0 use_devicesfile = 0 hints = "none" scan = [ "/dev" ] filter = [ $1, "r|.*|" ] }
activation { udev_sync = 0 udev_rules = 0 monitoring = 0 polling_interval = 1 }
global { event_activation = 0 use_lvmpolld = 0 thin_check_executable = "" cache_check_executable = "" }
backup { backup = 0 archive = 0 }
CONF
}
accept='"a|/dev/vd[a-f]$|"'
configure "$accept"

# The devices of these letters.
devices() {
    echo "$*" | tr -d ' ' | tr A-Z a-z | sed 's,[a-z],/dev/vd& ,g'
}

# Runs a program with output that matters only when it fails.
quietly() {
    "$@" </dev/null >/tmp/output 2>&1 || {
        echo "failed: $*"
        cat /tmp/output
        lvm lvs -a -o+devices
        dmsetup table
        dmsetup status
        exit 1
    }
}

# Fails when the command succeeds: `set -e` does not see the status of one behind `!`.
refuse() {
    if "$@"; then
        echo "this succeeds, and must not: $*"
        exit 1
    fi
}

# Prints what differs, and ends.
same() {
    test "$2" = "$3" || {
        echo "$1: '$2' instead of '$3'"
        exit 1
    }
}

# What the host changed on these devices is read again.
reread() {
    for device; do
        blockdev --flushbufs $device
    done
}

# group LETTERS [OPTION…]: a new group vg on these disks; all are blank before.
group() {
    letters=$1 volumes=
    shift
    host blank ABCDEF
    reread $(devices ABCDEF)
    disks=$(devices $letters)
    quietly lvm vgcreate -q -s 1M "$@" vg $disks
}

# fill NAME FROM COUNT [AT]: writes so many MiB of the pattern, from that MiB of it on, at that MiB of a volume.
fill() {
    quietly dd if=/dev/vdg of=/dev/mapper/vg-$1 bs=1M skip=$2 count=$3 seek=${4-0} conv=fsync,notrunc
}

# volume NAME REDUNDANCY FROM MIB [OPTION…]: a new volume with the pattern. Its data survive the loss of as many
# physical volumes as its redundancy.
volume() {
    quietly lvm lvcreate -q -y -n $1 -L $4M $(shift 4; echo "$@")
    fill $1 $3 $4
    judged $1 $2
}

# The host is to read this volume.
judged() {
    volumes="$volumes $1:$2"
}

# Waits until everything that is active is in sync.
in_sync() {
    for _ in $(seq 600); do
        # The first field a/b is how much is in sync; before it, with raid, or behind, with mirror, each image
        # has a letter, which is small where it is not in sync.
        dmsetup status | awk '
            $4 == "raid" || $4 == "mirror" {
                for (i = 5; i <= NF; i++) if ($i ~ /^[0-9]+\/[0-9]+$/) break
                split($i, ratio, "/")
                letters = $4 == "raid" ? $(i - 1) : $(i + 2)
                if (ratio[1] != ratio[2] || letters ~ /a/) waiting = 1
            }
            END { exit waiting }' && return
        sleep 0.1
    done
    echo "still not in sync"
    dmsetup status
    exit 1
}

# md5 finds a difference as well as the others, in a third of the emulated processor's time.
sum() {
    md5sum <$1 | cut -d ' ' -f 1
}

# Everything that LVM and the kernel report about the active group, and the checksums of its volumes as the
# kernel reads them, for the host.
describe() {
    sync
    echo 3 >/proc/sys/vm/drop_caches
    {
        for volume in $volumes; do
            name=${volume%:*}
            device=/dev/mapper/vg-$(echo $name | sed 's/-/--/g')
            contents=-
            test ${volume#*:} = refused || contents=$(sum $device)
            echo "volume $name $(blockdev --getsize64 $device) $contents ${volume#*:}"
        done
        echo "@ lvs"
        lvm lvs -a -o+seg_type,devices
        echo "@ pvs"
        lvm pvs -o+pv_uuid
        echo "@ dmsetup table"
        dmsetup table
        echo "@ dmsetup status"
        dmsetup status
        echo "@ devices"
        for disk in $disks; do
            echo "${disk#/dev/} $(cat /sys/block/${disk#/dev/}/dev)"
        done
        dmsetup ls
        echo "@ vgcfgbackup"
        lvm vgcfgbackup -q -f /tmp/backup vg >/dev/null
        cat /tmp/backup
    } >/tmp/notes 2>&1
}

# Puts the notes where the host finds them.
hand_over() {
    quietly dd if=/tmp/notes of=/dev/vdh bs=64k conv=sync,fsync
}

# Ends the activity of the group.
deactivate() {
    quietly lvm vgchange -q -an vg
    sync
}

# judge NAME: the host reads every volume of the group, which is in sync.
judge() {
    in_sync
    judge_now $1
}

# The same of a group that may be degraded.
judge_now() {
    describe
    deactivate
    hand_over
    host read $1 $letters
}
