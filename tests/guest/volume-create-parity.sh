# Volumes with parity, written by us and by the kernel. What we create and write the kernel activates, with a filesystem that is
# whole and parity that fits (its check finds no mismatch): resynced by us, by the kernel before our first use, after our
# process was killed, and without a disk. What LVM creates and the kernel writes or runs without a disk we write, and the
# kernel finds the same.
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
letters=ABCDE disks=$(devices ABCDE)

# LVM and the kernel agree with what the host reported: volumes, what they hold, and that nothing is damaged.
agree() {
    reread $disks
    quietly lvm vgck vg
    quietly lvm vgchange -q -ay vg
    for word in $expected; do
        name=${word%%:*}
        same "$1, $name" "$name:$(blockdev --getsize64 /dev/mapper/vg-$name):$(sum /dev/mapper/vg-$name)" "$word"
    done
    lvm lvs -a -o lv_name,lv_attr,segtype,region_size,devices vg
}

# fits WHEN NAME…: parity of these volumes fits what they hold.
fits() {
    moment=$1
    shift
    in_sync
    for name; do
        quietly lvm lvchange -q --syncaction check vg/$name
        for _ in $(seq 600); do
            test "$(dmsetup status vg-$name | cut -d ' ' -f 8)" = idle && break
            sleep 0.1
        done
        # Images that are in sync, and sectors that differ.
        status=$(dmsetup status vg-$name | cut -d ' ' -f 6,8,9)
        same "$moment, parity of $name" "$(echo $status | tr -d A)" " idle 0"
    done
    echo "$moment: parity of $* fits"
}

# What we created and wrote.
expected=$(host create)
agree created
same images "$(lvm lvs -a --noheadings -o lv_name,devices vg | tr -d '[]' | awk '$1 ~ /_rimage_/ { sub(/\(.*/, ""); print $1, $2 }' |
    sort -u | cut -d _ -f 1 | uniq -c | awk '{ printf "%s:%s ", $2, $1 }')" "fast:3 five:3 four:4 fresh:5 six:5 "
# It was not resynced by us, and is not by the kernel.
same nosync "$(lvm lvs --noheadings -o lv_attr vg/fast | tr -d ' ' | cut -c 1)" R
same "fast is in sync" "$(dmsetup status vg-fast | cut -d ' ' -f 6,8)" "AAA idle"
# One that was never in use gets a filesystem.
quietly mkfs.ext4 -q /dev/mapper/vg-fresh
mount /dev/mapper/vg-fresh /mnt
dd if=/dev/vdg of=/mnt/file bs=64k count=40 2>/dev/null
umount /mnt
fits created five six four fresh
volumes="five:1 six:2 four:1 fresh:2 fast:0"
judge created

# We were killed while we wrote.
host kill
expected=
agree killed
fits killed five six
deactivate

# We copied the filesystem into another volume; and wrote without a disk.
expected=$(host change)
agree changed
quietly e2fsck -fn /dev/mapper/vg-again
# The kernel brings the image on that disk up to date where we set bits.
fits changed five six again
quietly lvm lvremove -q -y vg/again

# LVM's own volumes, one of which the kernel runs without a disk.
quietly lvm lvcreate -q -y -n k5 -L 6M --type raid5 -i 2 vg /dev/vda /dev/vdb /dev/vdc
quietly lvm lvcreate -q -y -n k6 -L 6M --type raid6 -i 3 -I 16k vg
in_sync
deactivate
expected=$(host write 20 k5 k6)
agree "LVM's own"
fits "LVM's own" k5 k6
deactivate
configure "\"r|/dev/vdb|\", $accept"
quietly lvm vgchange -q -ay vg
fill k5 3 2 1
fill k6 7 2 1
deactivate
configure "$accept"
expected=$(host write 40 k5 k6)
agree "after the kernel wrote without a disk"
fits "after the kernel wrote without a disk" k5 k6
#: host
. "$SCRIPTS/volumes/host.sh"

members=$(images ABCDE)

# Runs one of our commands about the group on its disks.
change() {
    command=$1 path=$2
    shift 2
    quietly outboard volume $command $path "$@" $members
}

# put IMAGES NAME FROM COUNT: new content for a volume on these disks, the pattern from this MiB on.
put() {
    rm -f content
    dd if=PATTERN.img of=content bs=1M skip=$3 count=$4 status=none
    quietly outboard copy content "$(volume "$1" $2)" --force
}

# What these volumes hold.
print() {
    for name; do
        rm -f found
        quietly outboard copy "$(volume "$members" $name)" found --detect-zeroes never
        echo "$name:$(stat -c %s found):$(md5sum <found | cut -d ' ' -f 1)"
    done
    quietly outboard volume check $members
}

case $1 in
blank) blank $(images $2) ;;
pattern) pattern $2 ;;
read) read_group $2 $3 ;;
create)
    # What earlier volumes left is neither metadata of images nor parity.
    for image in $members; do
        dd if=PATTERN.img of=$image bs=1M seek=1 conv=notrunc status=none count=40
    done
    quietly outboard volume create vg/five --type raid5 --size 8M --disks $members --extent-size 1M
    change create vg/six --type raid6 --size 6M
    change create vg/four --type raid4 --size 6M --stripes 3 --stripe-size 16K
    change create vg/fast --type raid5 --size 4M --nosync
    change create vg/fresh --type raid6 --size 6M
    put "$members" five 0 8
    put "$members" six 8 6
    put "$members" four 16 6
    put "$members" fast 24 4
    print five six four fast
    ;;
kill)
    for name in five six; do
        dd if=PATTERN.img of=content bs=1M skip=33 count=6 status=none
        # Killed in the midst of it.
        if timeout -s KILL 2 outboard copy content "throttle($(volume "$members" $name), bytes=2M/s)" --force \
            </dev/null >output 2>&1; then
            echo "$name was written before it was killed"
            exit 1
        fi
    done
    ;;
change)
    change create vg/again --type raid5 --size 6M --stripes 4
    rm -f found
    quietly outboard copy "$(volume "$members" fresh)" found --detect-zeroes never
    quietly outboard copy found "$(volume "$members" again)" --force
    change rename vg/fresh films
    change remove vg/films
    change remove vg/four
    # Two disks are gone for one, which goes on without its image on B.
    put "$(without "$members" B.img)" five 40 8
    print five six again
    ;;
write)
    from=$2
    shift 2
    for name; do
        put "$members" $name $from 6
        cp content content.$name
        from=$((from + 7))
    done
    print "$@"
    for name; do
        for gone in $members; do
            rm -f found
            # Without another one an image that failed may be one too many.
            outboard copy "$(volume "$(without "$members" $gone)" $name)" found --detect-zeroes never \
                </dev/null >output 2>&1 || continue
            cmp found content.$name
        done
    done
    ;;
esac
