# The package for the initramfs, in a Debian that has only initramfs-tools: an image has the binary of the
# package, also after its upgrade. Any step that fails ends it.
set -eu

step() { echo "== $*"; }

# Fails when the command succeeds: `set -e` does not see the status of one behind `!`.
refuse() {
    if "$@"; then
        echo "this succeeds, and must not: $*" >&2
        exit 1
    fi
}

# A kernel without modules is enough.
kernel=6.1.0-check
image=/boot/initrd.img-$kernel
mkdir -p /lib/modules/$kernel
: >/boot/vmlinuz-$kernel
echo CONFIG_RD_GZIP=y >/boot/config-$kernel
depmod $kernel

# The files of the image, in /tmp/image.
unpack() {
    rm -rf /tmp/image
    unmkinitramfs "$image" /tmp/image
}

step "an image without outboard"
update-initramfs -c -k $kernel
unpack
test -e /tmp/image/init
test ! -e /tmp/image/usr/bin/outboard

step "the package has the image built again, with the binary, its libraries and the script"
dpkg --install /packages/outboard_*.deb
unpack
test ! -e /tmp/image/usr/bin/outboard
dpkg --install /packages/outboard-initramfs_*.deb
unpack
binary=/usr/lib/outboard/initramfs/outboard
cmp /tmp/image/usr/bin/outboard $binary
test -s /tmp/image/scripts/local-top/outboard
chroot /tmp/image /usr/bin/outboard --version
lsinitramfs "$image" | grep bin/outboard

step "an upgrade is in the image, too"
dpkg --install /packages/upgrade/outboard_*.deb /packages/upgrade/outboard-initramfs_*.deb
refuse cmp -s /tmp/image/usr/bin/outboard $binary
unpack
cmp /tmp/image/usr/bin/outboard $binary

step "without the package the image is as before"
dpkg --purge outboard-initramfs
unpack
test -e /tmp/image/init
test ! -e /tmp/image/usr/bin/outboard

step "all is well"
