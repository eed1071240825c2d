# Volumes of RAID that we create: the kernel activates them, before and after our first use, and LVM finds nothing wrong;
# filesystems that it makes there are whole, and read with each image missing once it is in sync. What we rename, remove
# and write between its turns it finds.
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

# LVM and the kernel agree with what we wrote; the volumes stay active.
agree() {
    letters=ABCD disks=$(devices ABCD)
    reread $disks
    quietly lvm vgck vg
    for disk in $disks; do
        lvm pvck --dump headers $disk >/tmp/output 2>&1
        if grep -E 'CHECK|[Ii]nvalid|[Ee]rror' /tmp/output; then
            echo "pvck finds that on $disk"
            exit 1
        fi
    done
    quietly lvm vgchange -q -ay vg
    lvm lvs -a -o lv_name,lv_attr,segtype,region_size,devices vg
}

# on NAME: the disks that the images of a volume and their metadata are on, each image on one.
on() {
    lvm lvs -a --noheadings -o lv_name,devices vg | tr -d '[]' | awk -v name=$1 '
        $1 ~ "^" name "_r(image|meta)_" {
            split($1, parts, "_"); sub(/\(.*/, "", $2)
            image = parts[3]
            if (image in disk && disk[image] != $2) exit 1
            disk[image] = $2
        }
        END { for (image in disk) { if (disk[image] in used) exit 1; used[disk[image]] = 1; count++ } print count }'
}

# What we created and wrote.
expected=$(host create)
agree
for word in $expected; do
    name=${word%%:*}
    same $name "$name:$(blockdev --getsize64 /dev/mapper/vg-$name):$(sum /dev/mapper/vg-$name)" "$word"
done
same images "$(on one) $(on three) $(on ten) $(on zero) $(on fresh)" "2 3 4 2 2"
# Its images were declared equal: we did not resync them, and the kernel does not either.
same "in sync" "$(dmsetup status vg-three | cut -d ' ' -f 6-8)" "AAA 12288/12288 idle"
same nosync "$(lvm lvs --noheadings -o lv_attr vg/three | tr -d ' ' | cut -c 1)" R
# Volumes that were never in use get a filesystem.
for name in fresh fresh10; do
    quietly mkfs.ext4 -q /dev/mapper/vg-$name
    mount /dev/mapper/vg-$name /mnt
    dd if=/dev/vdg of=/mnt/file bs=64k count=40 2>/dev/null
    umount /mnt
done
volumes="one:1 three:2 ten:1 zero:0 fresh:1 fresh10:1"
judge created

expected=$(host change)
agree
for word in $expected; do
    name=${word%%:*}
    same $name "$name:$(blockdev --getsize64 /dev/mapper/vg-$name):$(sum /dev/mapper/vg-$name)" "$word"
done
for name in films fresh10; do
    quietly e2fsck -fn /dev/mapper/vg-$name
done
# LVM changes them as its own.
quietly lvm lvextend -q -L +2M vg/films
quietly lvm lvrename -q vg/films vg/again
quietly lvm lvremove -q -y vg/fresh10
volumes="one:1 three:2 zero:0 again:1"
judge changed

# We extend and reduce: `one` is opened by us with its new size before the kernel has it, `three` and `zero` are not, and
# `five` was extended by LVM while it was inactive. What we reduce and extend again is not taken to be in sync.
quietly lvm vgchange -q -ay vg
quietly lvm lvcreate -q -y -n five --type raid5 --stripes 2 -L 4M vg
in_sync
deactivate
quietly lvm lvextend -q -L +2M vg/five
expected=$(host resize)
agree
for word in $expected; do
    name=${word%%:*}
    same $name "$name:$(blockdev --getsize64 /dev/mapper/vg-$name):$(sum /dev/mapper/vg-$name)" "$word"
done
same sizes "$(blockdev --getsize64 /dev/mapper/vg-three) $(blockdev --getsize64 /dev/mapper/vg-zero)" "10485760 6291456"
in_sync
for name in one three five; do
    quietly dmsetup message vg-$name 0 check
    sleep 1
    for _ in $(seq 300); do
        dmsetup status vg-$name | grep -q ' idle ' && break
        sleep 0.1
    done
    same "$name, mismatches" "$(dmsetup status vg-$name | awk '{ print $(NF - 2) }')" 0
done
volumes="one:1 three:2 zero:0 again:1 five:1"
judge resized
#: host
. "$SCRIPTS/volumes/host.sh"

members=$(images ABCD)

# Runs one of our commands about the group on its disks.
change() {
    command=$1 path=$2
    shift 2
    quietly outboard volume $command $path "$@" $members
}

# put NAME FROM COUNT: new content for a volume, the pattern from this MiB on.
put() {
    rm -f content
    dd if=PATTERN.img of=content bs=1M skip=$2 count=$3 status=none
    quietly outboard copy content "$(volume "$members" $1)" --force
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
    # What earlier volumes left where metadata of images come is not theirs.
    for image in $members; do
        dd if=PATTERN.img of=$image bs=1M seek=1 conv=notrunc status=none count=40
    done
    quietly outboard volume create vg/one --type raid1 --size 8M --disks $members --extent-size 1M
    change create vg/three --mirrors 2 --nosync --size 6M
    change create vg/ten --type raid10 --size 8M --stripe-size 16K
    change create vg/zero --type raid0 --size 4M
    change create vg/fresh --type raid1 --size 6M --on C.img --on D.img
    change create vg/fresh10 --mirrors 1 --stripes 2 --size 6M
    put one 0 8
    put three 8 6
    put ten 16 8
    put zero 24 4
    print one three ten zero
    ;;
change)
    change remove vg/ten
    change rename vg/fresh films
    put one 30 8
    print one three zero films fresh10
    ;;
resize)
    change extend vg/one --size 12M
    put one 4 12
    change reduce vg/one --size 6M --force
    change extend vg/one --size 10M
    put one 12 10
    change extend vg/three --size 10M
    change extend vg/zero --size 6M
    put five 20 6
    print one five
    ;;
esac
