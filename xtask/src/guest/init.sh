#!/bin/busybox sh
# The first process of the guest: brings up what every script needs, runs the script, says how it ended.
/bin/busybox mkdir -p /proc /sys /dev /run /tmp /mnt /busybox
/bin/busybox --install -s /busybox
export PATH=/usr/sbin:/usr/bin:/sbin:/bin:/busybox HOME=/tmp
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
exec </dev/null >/dev/ttyS1 2>&1
# The host's answers are not echoed to it.
stty -F /dev/ttyS1 -echo
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /tmp
ln -sf /proc/mounts /etc/mtab
echo /busybox/modprobe >/proc/sys/kernel/modprobe
for module in virtio_pci virtio_net nbd; do
    modprobe $module || echo "init: module $module does not load"
done
ip link set lo up
ip address add 10.0.2.15/24 dev eth0
ip link set eth0 up
ip route add default via 10.0.2.2
cd /tmp
sh -eu /guest/script.sh
code=$?
# A script that has mounted another root filesystem goes on there.
if [ $code = 0 ] && [ -x /newroot/sbin/init ]; then
    cd /
    for folder in proc sys dev run; do
        mount --move /$folder /newroot/$folder
    done
    exec switch_root /newroot /sbin/init
fi
echo "@exit $code"
sync
poweroff -f
