# Every array that the kernel's md makes reads equal through array(…): each level, each layout, each kind of
# superblock, complete, with each member missing, and for level 6 with each pair missing. So do arrays that
# the kernel left in the middle of things: after members failed, during a recovery, with bad blocks noted.
# Reading leaves every byte of the members as it was.
#
# The guest makes the arrays on disks A to F; the host reads their images, at its own speed. With KEEP=FOLDER
# in its environment the host keeps a copy of each array there.
#: outboard host
#: processors 1
#: disk A 8M
#: disk B 8M
#: disk C 8M
#: disk D 8M
#: disk E 9M
#: disk F 10M
#: disk PATTERN 48M
#: timeout 600

. /guest/arrays.sh

host pattern

# create VERSION LEVEL MEMBERS [OPTION…]: an array that is in sync at once. Members by their letters.
create() {
    version=$1 level=$2 letters=$3
    shift 3
    members=$(echo $letters | sed 's/./& /g')
    disks=$(echo "$members" | tr A-F a-f | sed 's,[a-f],/dev/vd&,g')
    name="$version-$level-$letters$(echo "$*" | tr -c 'a-zA-Z0-9\n' _)"
    clean=--assume-clean
    case $level in
    linear | 0) clean= ;;
    esac
    mdadm --create /dev/md0 --run --metadata=$version --name=photos --homehost=nas \
        --level=$level --raid-devices=${#letters} $clean "$@" $disks </dev/null >/tmp/said 2>&1 || {
        cat /tmp/said
        exit 1
    }
    size=$(($(cat /sys/block/md0/size) * 512))
}

# Fills the array with the pattern from this MiB of it on.
fill() {
    dd if=/dev/vdg of=/dev/md0 bs=1M skip=$1 conv=fsync 2>/dev/null || true
}

# Stops the array and has the host read it with these arguments, without as many members as given, in each way
# to leave them out, and compare it with the pattern from this MiB on.
judge() {
    mdadm --stop --quiet /dev/md0
    host read "$name${what-}" $members : $1 $2 $size "${3-}"
}

# whole MISSING VERSION LEVEL MEMBERS [OPTION…]: an array as it is made, written and stopped.
whole() {
    missing=$1
    shift
    create "$@"
    fill 0
    judge $missing 0
}

combination whole 0 1.2 linear ABE --rounding=64
combination whole 0 1.2 linear ABE --rounding=12
combination whole 0 0.90 linear AF --rounding=16
combination whole 0 1.0 0 ABC --chunk=64
combination whole 0 1.1 0 ABEF --chunk=16 --layout=original
combination whole 0 1.2 0 ABEF --chunk=16 --layout=alternate
# Linux leaves chunks unused where they are no power of two: the host compares the size, too.
combination whole 0 1.2 0 ABC --chunk=12
combination whole 0 1.2 0 ABEF --chunk=12 --layout=alternate
combination whole 0 1.1 0 ABEF --chunk=20 --layout=original
combination whole 0 1.0 0 AEF --chunk=44 --layout=alternate
# mdadm makes no RAID 0 with an old superblock any more, but the kernel still runs one: it says nothing of
# how it lies behind its shortest member.
for how in 32-1 32-2 12-1 12-2; do
    layout=${how#*-}
    create 0.90 linear ABE --rounding=${how%-*}
    mdadm --stop --quiet /dev/md0
    host raid0 $members
    echo $layout >/sys/module/raid0/parameters/default_layout
    mdadm --assemble --quiet /dev/md0 $disks
    size=$(($(cat /sys/block/md0/size) * 512))
    name=0.90-0-ABE-$how
    fill 0
    judge 0 0 ", raid0-layout=$(test $layout = 1 && echo original || echo alternate)"
done

combination whole 1 0.90 1 AB
combination whole 1 1.0 1 AB --bitmap=none
combination whole 1 1.1 1 AB
combination whole 2 1.2 1 ABC --bitmap=internal --bitmap-chunk=64K

combination whole 1 1.2 4 ABC --chunk=16
combination whole 1 0.90 4 ABCD --chunk=32
for layout in la ra ls rs parity-first parity-last; do
    combination whole 1 1.2 5 ABCD --chunk=16 --layout=$layout
done
combination whole 1 0.90 5 ABC --chunk=64
combination whole 1 1.0 5 ABCDE --chunk=128
combination whole 1 1.1 5 ABC

for layout in la ra ls rs parity-first parity-last ddf-zero-restart ddf-N-restart ddf-N-continue \
    left-asymmetric-6 right-asymmetric-6 left-symmetric-6 right-symmetric-6 parity-first-6; do
    combination whole 2 1.2 6 ABCDE --chunk=16 --layout=$layout
done
combination whole 2 0.90 6 ABCD --chunk=64
combination whole 2 1.0 6 ABCDEF --chunk=16 --layout=rs
combination whole 2 1.1 6 ABCDEF --chunk=4 --layout=ddf-N-continue

for layout in n2 f2 o2; do
    combination whole 1 1.2 10 ABCD --chunk=16 --layout=$layout
    combination whole 1 1.2 10 ABC --chunk=16 --layout=$layout
done
for layout in n3 f3 o3; do
    combination whole 2 1.1 10 ABCDE --chunk=64 --layout=$layout
done
combination whole 1 0.90 10 ABCD --chunk=32
combination whole 1 1.0 10 AB --chunk=32 --layout=f2

# What was written after members failed is not in them: they are not to be read.
create 1.2 1 ABC
fill 0
mdadm --quiet /dev/md0 --fail /dev/vdb
fill 1
what=-failed judge 0 1
create 0.90 5 ABC --chunk=16
fill 0
mdadm --quiet /dev/md0 --fail /dev/vda
fill 1
what=-failed judge 0 1
create 1.2 6 ABCDE --chunk=16
fill 0
mdadm --quiet /dev/md0 --fail /dev/vda
fill 1
mdadm --quiet /dev/md0 --fail /dev/vdd
fill 2
what=-failed judge 0 2
create 1.0 10 ABCD --chunk=16
fill 0
mdadm --quiet /dev/md0 --fail /dev/vda --fail /dev/vdd
fill 1
what=-failed judge 0 1

# During a recovery the new member holds what lies before its offset, and nothing behind it.
for level in 1 5 6 10; do
    create 1.2 $level ABCD $(test $level = 1 || echo --chunk=16)
    mdadm --quiet /dev/md0 --fail /dev/vdb
    fill 0
    mdadm --quiet /dev/md0 --remove /dev/vdb
    echo 4096 >/sys/block/md0/md/sync_max
    mdadm --quiet --zero-superblock /dev/vdb
    mdadm --quiet /dev/md0 --add /dev/vdb
    for _ in $(seq 100); do
        read done _ </sys/block/md0/md/sync_completed
        test "$done" != 4096 || break
        sleep 0.1
    done
    test "$done" = 4096
    what=-recovering judge $(test $level = 6 && echo 1 || echo 0) 0
    host recovering B
done

# Bad blocks are read from others. The host spoils what lies there. Their logs count from the beginning of the disk.
for level in 1 5 10; do
    create 1.2 $level ABC $(test $level = 1 || echo --chunk=16)
    fill 0
    from=$(cat /sys/block/md0/md/dev-vda/offset)
    echo "$((from + 104)) 8" >/sys/block/md0/md/dev-vdb/bad_blocks
    echo "$((from + 2048)) 16" >/sys/block/md0/md/dev-vda/bad_blocks
    # The log is written with the next change of the superblock. What is written there is good again: this is
    # elsewhere.
    dd if=/dev/vdg of=/dev/md0 bs=64k skip=60 seek=60 count=1 conv=fsync,notrunc 2>/dev/null
    mdadm --stop --quiet /dev/md0
    host spoil B $((from + 104)) 8
    host spoil A $((from + 2048)) 16
    host read $name-bad $members : 0 0 $size
done
#: host
# The images of the members, as the arguments of array(…).
join() {
    echo "$*" | sed 's/\([A-F]\)/\1.img/g; s/ /, /g'
}

sums() {
    for member in $members; do
        md5sum $member.img
    done
}

# Reads the array of these members, with more arguments behind a comma.
equal() {
    rm -f ours
    outboard copy "array($(join $1)${2-}$more)" ours --detect-zeroes never >copied 2>&1 || {
        cat copied
        echo "$name of $1: not read"
        exit 1
    }
    test "$(stat -c %s ours)" = $size || {
        echo "$name of $1: $(stat -c %s ours) bytes, the kernel says $size"
        exit 1
    }
    cmp --ignore-initial=0:$from --bytes=$size ours PATTERN.img || {
        echo "$name of $1: other data"
        exit 1
    }
    count=$((count + 1))
}

# What is left of members without one.
without() {
    echo "$1" | sed "s/$2 \{0,1\}//; s/ $//"
}

# Makes RAID 0 of a linear array with an old superblock: word 7 is the level, word 38 the checksum.
raid0() {
    perl -e '
        open(my $file, "+<", $ARGV[0]) or die;
        my $at = int((-s $file) / 65536) * 65536 - 65536;
        seek($file, $at, 0);
        read($file, my $bytes, 4096);
        my @words = unpack("V1024", $bytes);
        @words[7, 38] = (0, 0);
        my $sum = 0;
        $sum += $_ for @words;
        $words[38] = (($sum & 0xffffffff) + ($sum >> 32)) & 0xffffffff;
        seek($file, $at, 0);
        print $file pack("V1024", @words);
    ' $1.img
}

case $1 in
raid0)
    shift
    for member; do
        raid0 $member
    done
    ;;
pattern)
    head -c 48M /dev/urandom >PATTERN.img
    ;;
spoil)
    mdadm --examine-badblocks $2.img | grep "$3 for $4 sectors"
    head -c $(($4 * 512)) /dev/zero | tr '\0' x |
        dd of=$2.img bs=512 seek=$3 conv=notrunc status=none
    ;;
recovering)
    mdadm --examine $2.img | grep 'Recovery Offset : 4096'
    ;;
read)
    # read NAME MEMBER… : MISSING FROM SIZE [, ARGUMENT]
    name=$2 members= count=0
    shift 2
    while [ "$1" != : ]; do
        members="$members $1"
        shift
    done
    members=${members# } missing=$2 from=$(($3 << 20)) size=$4
    shift 4
    more=$*
    if [ "${KEEP-}" ]; then
        mkdir -p "$KEEP/$name"
        for member in $members; do
            cp --sparse=always $member.img "$KEEP/$name/"
        done
        cp -u PATTERN.img "$KEEP/"
        echo "members $members; missing $missing; pattern from $from; size $size" >"$KEEP/$name/about"
    fi
    test "${KEEP-}" != "${KEEP_ONLY-none}" || exit 0
    sums >before
    equal "$members"
    if [ $missing -ge 1 ]; then
        for gone in $members; do
            left=$(without "$members" $gone)
            equal "$left" ", run=true"
            test $missing = 2 || continue
            for too in $left; do
                # Each pair once.
                test $gone = $too || expr $gone \< $too >/dev/null || continue
                equal "$(without "$left" $too)" ", run=true"
            done
        done
    fi
    sums | cmp before - || {
        echo "$name: reading changed a member"
        exit 1
    }
    echo "$name: equal, $count times"
    ;;
esac
