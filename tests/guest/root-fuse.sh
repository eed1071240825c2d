# The guest boots its root filesystem from our server, attached over FUSE and a loop device by the script that
# the guide gives for the initramfs; the server is killed and started again under the running system.
#: root DISK 96M
#: outboard
#: timeout 300

mkdir -p /conf /scripts /newroot
printf 'configure_networking() { :; }\npanic() { echo "$@"; exit 1; }\n' >/scripts/functions
echo "outboard=nbd://10.0.2.2:$DISK/ outboard_via=fuse" >/tmp/cmdline
mount --bind /tmp/cmdline /proc/cmdline
sh /guest/local-top
umount /proc/cmdline
. /conf/param.conf
test "$(readlink /run/outboard/by-name/root)" = "$ROOT"
mount -t ext4 "$ROOT" /newroot
echo fuse >/run/how
