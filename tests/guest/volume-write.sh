# We and LVM change one group in turns, ten times each: we make it, and create, extend, reduce, rename and remove
# volumes in it, add disks and take them out. After each turn of ours vgck and pvck find nothing, the kernel reads
# what we wrote, the filesystem is whole and its files are there; after each turn of LVM's we read what the kernel
# reads. Volumes of types that only LVM makes stay as they are.
#: outboard host
#: processors 1
#: disk A 48M
#: disk B 48M
#: disk C 48M
#: disk D 48M
#: disk E 48M
#: disk F 48M
#: disk PATTERN 64M
#: disk NOTES 1M
#: timeout 600

. /guest/volumes.sh
host pattern 64

# The kernel and LVM agree with what we did in this turn; the volumes stay active.
agree() {
    turn=$1
    expected=$(host turn $turn)
    reread $(devices ABCDEF)
    letters=${expected%% *}
    disks=$(devices $letters)
    quietly lvm vgck vg
    for disk in $disks; do
        lvm pvck --dump headers $disk >/tmp/output 2>&1
        if grep -E 'CHECK|[Ii]nvalid|[Ee]rror' /tmp/output; then
            echo "turn $turn: pvck finds that on $disk"
            exit 1
        fi
    done
    quietly lvm vgchange -q -ay vg
    volumes=
    for word in ${expected#* }; do
        name=${word%%:*}
        same "turn $turn, $name" "$name:$(blockdev --getsize64 /dev/mapper/vg-$name):$(sum /dev/mapper/vg-$name)" \
            "$word"
        judged $name 0
    done
    if [ $turn -gt 1 ]; then
        quietly e2fsck -fn /dev/mapper/vg-data
        mount /dev/mapper/vg-data /mnt
        (cd /mnt && md5sum -c sums >/dev/null)
        dd if=/dev/vdg of=/mnt/turn$turn bs=64k skip=$((turn * 20)) count=5 2>/dev/null
        (cd /mnt && md5sum turn* >sums)
        umount /mnt
    fi
    echo "turn $turn: the kernel agrees: $(lvm vgs --noheadings -o vg_seqno,pv_count,lv_count,vg_free vg)"
}

# LVM changes the group; what it answers does not matter if it can.
change() {
    quietly lvm "$@"
}

agree 1
quietly mkfs.ext4 -q /dev/mapper/vg-data
mount /dev/mapper/vg-data /mnt
echo first >/mnt/turn0
(cd /mnt && md5sum turn0 >sums)
umount /mnt
volume theirs 0 10 4 -i 2 vg
judge turn-1

agree 2
change lvextend -q -L +2M vg/theirs
fill data2 20 1 1
judge turn-2

agree 3
change lvrename -q vg/theirs vg/ours
volumes=$(echo "$volumes" | sed 's/theirs/ours/')
volume mirrored 1 30 4 --type raid1 -m 1 vg
judge turn-3

agree 4
change vgextend -q vg /dev/vde
letters=${letters}E disks=$(devices $letters)
change lvextend -q -L +3M vg/small /dev/vde
judge turn-4

agree 5
change lvreduce -q -y -f -L 3M vg/ours
judge turn-5

agree 6
change lvremove -q -y vg/mirrored
volumes=$(echo "$volumes" | sed 's/mirrored:[0-9]//')
change pvmove -q -i 1 /dev/vde
judge turn-6

agree 7
change vgreduce -q vg /dev/vde
letters=$(echo $letters | tr -d E) disks=$(devices $letters)
judge turn-7

# In its eighth turn ours gives the group another name.
host rename
reread $(devices ABCDEF)
change vgck other
change vgrename -q other vg

agree 8
change vgchange -q --addtag photos vg
change lvchange -q --addtag 'a-b.c' vg/data
judge turn-8

agree 9
quietly lvm lvcreate -q -y -l 100%FREE -n filler vg
judge turn-9
quietly lvm lvremove -q -y vg/filler

agree 10
test "$(lvm vgs --noheadings -o vg_tags vg | tr -d ' ')" = photos
test "$(lvm lvs --noheadings -o lv_tags vg/data | tr -d ' ')" = a-b.c
judge turn-10
#: host
. "$SCRIPTS/volumes/host.sh"

# Runs one of our commands about the group on its disks.
change() {
    command=$1 path=$2
    shift 2
    quietly outboard volume $command $path "$@" $members
}

# New contents for a volume of ours: the pattern from this MiB on.
put() {
    size=$(($3 << 20))
    rm -f content
    dd if=PATTERN.img of=content bs=1M skip=$2 count=$3 status=none
    quietly outboard copy content "$(volume "$members" $1)" --force
    cp content model.$1
}

# These volumes are what they were, as far as they reach; prints them.
expected() {
    line=
    for name in $(cat names); do
        rm -f found
        quietly outboard copy "$(volume "$members" $name)" found --detect-zeroes never
        size=$(stat -c %s found)
        if [ -e model.$name ]; then
            known=$(stat -c %s model.$name)
            test $known -lt $size || known=$size
            cmp --bytes=$known found model.$name
        fi
        cp found model.$name
        line="$line $name:$size:$(md5sum <found | cut -d ' ' -f 1)"
    done
    quietly outboard volume check $members
    echo "$(echo "$members" | sed 's/.img//g; s/ //g')$line"
}

save() {
    echo "$members" >members
}

# What we do in this turn.
turn() {
    case $1 in
    1)
        members=$(images ABC)
        quietly outboard volume create vg/data --disks $members --size 24M --extent-size 1M
        save
        change create vg/data2 --size 8M --stripes 2 --stripe-size 16K
        change create vg/small --size 3M --on C.img
        put data2 0 8
        put small 12 3
        echo data data2 small >names
        ;;
    2)
        change extend vg/data2 --size +2M
        change create vg/fourth --extents 5
        put fourth 40 5
        echo data data2 small fourth theirs >names
        ;;
    3)
        change remove vg/fourth
        change extend vg/data --size 30M
        echo data data2 small theirs >names
        ;;
    4)
        change add-disk vg --disk D.img
        members="$members D.img"
        save
        change create vg/last --size 6M --on D.img
        put last 50 6
        echo data data2 small ours mirrored last >names
        ;;
    5)
        change reduce vg/last --size 4M --force
        # The filesystem is never cut.
        if outboard volume reduce vg/data --size 10M $members >output 2>&1; then
            echo "data was cut"
            exit 1
        fi
        cat output
        change extend vg/small --extents +1
        ;;
    6)
        change rename vg/small tiny
        mv model.small model.tiny
        change create vg/another --size 2M
        put another 60 2
        echo data data2 tiny ours mirrored last another >names
        ;;
    7)
        change remove vg/another
        echo data data2 tiny ours last >names
        ;;
    8)
        change extend vg/ours --size +2M
        ;;
    9)
        change remove vg/last
        change remove-disk vg --disk D.img
        members=$(without "$members" D.img)
        save
        echo data data2 tiny ours >names
        ;;
    10)
        change create vg/rest --extents 100%FREE
        echo data data2 tiny ours rest >names
        ;;
    esac
}

test ! -e members || members=$(cat members)
case $1 in
blank) blank $(images $2) ;;
pattern) pattern $2 ;;
read)
    # The guest may have added disks, and taken them out.
    members=$(images $3)
    save
    read_group $2 $3
    while read -r word name size sum redundancy; do
        test "$word" != volume || quietly outboard copy "$(volume "$members" $name)" model.$name --force
    done <notes
    ;;
turn)
    turn $2
    expected
    ;;
rename)
    change rename vg other
    ;;

esac
