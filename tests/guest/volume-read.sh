# What LVM and the kernel make reads equal through volume(…): each type of segment, RAID of each level complete and
# without as many physical volumes as it can lose, each form of a physical volume. What cannot be read is refused, and
# never reads as other data. Reading changes no image.
#
# The guest makes the groups on disks A to F; the host reads their images. With KEEP=FOLDER in its environment the
# host keeps a copy of each group there.
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

group ABCDEF
volume linear 0 0 8 vg /dev/vda:0-3 /dev/vdb:4-7
volume raid10x6 1 37 6 --type raid10 -i 3 -m 1 -I 16k vg
volume striped 0 3 9 -i 3 -I 16k vg
volume mirrored 1 7 6 --type mirror -m 1 --mirrorlog disk vg
# Nothing records what is in sync: without its first image it is refused.
volume core B 11 6 --type mirror -m 1 --mirrorlog core vg
volume copies BC 13 4 --type mirror -m 2 --mirrorlog core vg
volume raid0 0 17 6 --type raid0 -i 3 -I 4k vg
volume raid0m 0 19 6 --type raid0_meta -i 2 vg
volume raid1 1 23 6 --type raid1 -m 1 vg
volume raid1x3 2 29 4 --type raid1 -m 2 vg
volume raid10 1 31 6 --type raid10 -i 2 -m 1 vg
quietly lvm lvcreate -q -y --type zero -L 2M -n zeroes vg
judged zeroes 0
quietly lvm lvextend -q -L 12M vg/linear /dev/vdc
fill linear 41 4 8
judge plain

group ABCDEF
volume raid4 1 0 6 --type raid4 -i 3 -I 16k vg
for layout in la ra ls rs n; do
    volume raid5_$layout 1 5 6 --type raid5_$layout -i 3 -I 16k vg
done
for layout in zr nr nc; do
    volume raid6_$layout 2 9 6 --type raid6_$layout -i 3 -I 16k vg
done
for layout in n_6 ls_6; do
    volume raid6_$layout 1 9 6 --type raid6_$layout -i 3 -I 16k vg
done
volume raid6 1 13 8 --type raid6 -i 4 vg
judge parity

# Each form of a physical volume.
host blank ABCDEF
disks=$(devices ABCDEF)
reread $disks
quietly lvm pvcreate -q --metadatacopies 2 /dev/vda
quietly lvm pvcreate -q --metadatacopies 0 /dev/vdb
quietly lvm pvcreate -q --bootloaderareasize 1M /dev/vdc
quietly lvm pvcreate -q --dataalignment 3M --labelsector 3 /dev/vdd
quietly lvm pvcreate -q --metadatasize 64k /dev/vde
quietly lvm pvcreate -q /dev/vdf
quietly lvm vgcreate -q -s 1M vg $disks
letters=ABCDEF volumes=
volume striped 0 0 12 -i 6 vg
for letter in a b c d e f; do
    volume on$letter 0 10 2 vg /dev/vd$letter
done
# The text comes to the end of the smallest area, and goes on at its begin.
for tag in 1 2 3 4 5 6 7 8 9 10; do
    quietly lvm vgchange -q --addtag tag$tag vg
done
in_sync
describe
deactivate
hand_over
host read headers $letters
host old F
reread $disks
same "the kernel's group with an old header" "$(lvm vgs --noheadings -o vg_missing_pv_count vg 2>/dev/null | tr -d ' ')" 0
host read_old $letters
quietly lvm vgexport -q vg
host refusals $letters
#: host
. "$SCRIPTS/volumes/host.sh"

case $1 in
blank) blank $(images $2) ;;
pattern) pattern $2 ;;
read) read_group $2 $3 ;;
old)
    old_header $2.img
    ;;
read_old)
    # The notes of the group are still here.
    name=headers-old members=$(images $2) count=0 refused=0
    read_volumes
    # One of two areas is damaged; so is the only one of another disk.
    cp --sparse=always A.img a.img
    cp --sparse=always C.img c.img
    for copy in a.img c.img; do
        dd if=/dev/zero of=$copy bs=512 seek=9 count=100 conv=notrunc status=none
    done
    name=headers-damaged members="a.img B.img c.img D.img E.img F.img"
    read_volumes
    ;;
refusals)
    members=$(images $2) count=0 refused=0
    refused "$(volume "$members" striped)" export
    ;;
esac
