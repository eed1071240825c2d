# RAID volumes of groups that lost a disk read as the kernel left them: the kernel ran the group without the disk, which
# is there again with old data; lvconvert repaired a volume, and the metadata on the disk are outdated, too; a rebuild
# to another disk was cut off, by a power cut or by the end of the group's activity.
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

# The kernel runs the group without B, which is there again afterwards and must not be read.
group ABCDEF
volume linear 0 0 4 vg /dev/vda
volume raid1 B 0 6 --type raid1 -m 1 vg /dev/vda /dev/vdb
volume raid5 B 6 6 --type raid5 -i 2 vg /dev/vda /dev/vdb /dev/vdc
volume raid6 B 12 6 --type raid6 -i 3 vg /dev/vda /dev/vdb /dev/vdc /dev/vdd /dev/vde
volume raid10 B 18 6 --type raid10 -i 2 -m 1 vg /dev/vda /dev/vdb /dev/vdc /dev/vdd
in_sync
deactivate
configure "\"r|/dev/vdb|\", $accept"
quietly lvm vgchange -q -ay vg
from=30
for name in raid1 raid5 raid6 raid10; do
    fill $name $from 4 1
    from=$((from + 5))
done
judge_now stale
# Repaired without B, which is outdated now.
quietly lvm vgchange -q -ay vg
quietly lvm lvconvert -q -y --repair vg/raid1
fill raid5 50 2 3
judge_now outdated
configure "$accept"

# A rebuild to F that is cut off.
group ABCDEF
volume raid1 0 0 12 --type raid1 -m 1 vg /dev/vda /dev/vdb
volume raid5 0 12 24 --type raid5 -i 2 vg /dev/vda /dev/vdb /dev/vdc
in_sync
for name in raid1 raid5; do
    quietly lvm lvchange -q --minrecoveryrate 1 --maxrecoveryrate 100 vg/$name
    quietly lvm lvconvert -q -y --replace /dev/vdb vg/$name /dev/vdf
    fill $name 40 2 1
done
describe
hand_over
test $(dmsetup status | grep -c -E ' [Aa]*a[Aa]* [0-9]+/[0-9]+ ') = 2
host read rebuilding $letters
deactivate
host read rebuilding-stopped $letters
#: host
. "$SCRIPTS/volumes/host.sh"

case $1 in
blank) blank $(images $2) ;;
pattern) pattern $2 ;;
read) read_group $2 $3 ;;
esac
