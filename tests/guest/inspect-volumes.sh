# inspect says of volume groups that LVM made what pvs, vgs and lvs say of them.
#: outboard
#: processors 1
#: timeout 300

for module in dm-mod dm-snapshot dm-raid; do
    modprobe $module
done
modprobe brd rd_nr=4 rd_size=65536
mkdir -p /run/lvm /run/lock/lvm /etc/lvm
cat >/etc/lvm/lvm.conf <<'CONF'
devices { scan_lvs = 0 use_devicesfile = 0 scan = [ "/dev" ] filter = [ "a|/dev/ram|", "r|.*|" ] }
activation { udev_sync = 0 udev_rules = 0 monitoring = 0 }
global { event_activation = 0 thin_check_executable = "" }
CONF

devices="/dev/ram0 /dev/ram1 /dev/ram2"
lvm pvcreate -q $devices
lvm vgcreate -q vg0 $devices
lvm lvcreate -q -n media -L 20M vg0
lvm lvcreate -q -n fast -L 24M -i 3 vg0
lvm lvcreate -q -n safe -L 16M --type raid1 -m 1 vg0
lvm lvcreate -q -n old -s -L 8M vg0/media
mkfs.ext4 -q -L media /dev/vg0/media || mkfs.ext4 -q -L media /dev/mapper/vg0-media
lvm vgchange -q -an vg0
lvm lvs -a --units b -o lv_name,lv_size,segtype vg0

sums=$(for device in $devices; do md5sum <$device; done)
outboard inspect $devices
outboard inspect --json $devices | tr '{}' '\n\n' >/tmp/told
for volume in media fast safe old; do
    size=$(lvm lvs --noheadings --nosuffix --units b -o lv_size vg0/$volume | tr -d ' ')
    id=$(lvm lvs --noheadings -o lv_uuid vg0/$volume | tr -d ' ')
    # A snapshot is as large as its origin. LVM prints the size of its store.
    test $volume = old && size=$(lvm lvs --noheadings --nosuffix --units b -o origin_size vg0/$volume | tr -d ' ')
    grep "\"name\":\"$volume\",\"uuid\":\"$id\",\"size\":$size" /tmp/told
done
size=$(lvm vgs --noheadings --nosuffix --units b -o vg_size vg0 | tr -d ' ')
free=$(lvm vgs --noheadings --nosuffix --units b -o vg_free vg0 | tr -d ' ')
id=$(lvm vgs --noheadings -o vg_uuid vg0 | tr -d ' ')
grep "\"name\":\"vg0\",\"uuid\":\"$id\",.*\"size\":$size,\"free\":$free" /tmp/told
outboard inspect $devices | grep 'vg0/media .*linear: ext4 "media"'
outboard inspect $devices | grep 'vg0/old .*snapshot of media'
outboard inspect /dev/ram0 /dev/ram1 | grep '2 of 3 physical volumes'
id=$(lvm pvs --noheadings -o pv_uuid /dev/ram2 | tr -d ' ')
outboard inspect /dev/ram0 /dev/ram1 | grep "! physical volume $id is not among these disks"
outboard inspect /dev/ram0 /dev/ram1 | grep 'vg0/fast .*a part is missing'
test "$sums" = "$(for device in $devices; do md5sum <$device; done)"
