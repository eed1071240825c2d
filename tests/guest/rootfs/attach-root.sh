# Attaches the root filesystem from our server as an initramfs does, by the script that the guide gives for it, and
# mounts it on /newroot. $1: fuse or kernel.
set -eu
how=$1
mkdir -p /conf /scripts /newroot
printf 'configure_networking() { :; }\npanic() { echo "$@"; exit 1; }\n' >/scripts/functions
echo "outboard=nbd://10.0.2.2:$DISK/ outboard_via=$how" >/tmp/cmdline
mount --bind /tmp/cmdline /proc/cmdline
sh /guest/local-top
umount /proc/cmdline
. /conf/param.conf
test "$(readlink /run/outboard-attach/by-name/root)" = "$ROOT"
mount -t ext4 "$ROOT" /newroot
echo "$how" >/run/how
