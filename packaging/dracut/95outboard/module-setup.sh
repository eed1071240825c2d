#!/bin/bash
# Puts outboard and what it needs into the initramfs that dracut makes. Goes to /usr/lib/dracut/modules.d/95outboard.

check() {
    require_binaries outboard
}

depends() {
    echo network
}

installkernel() {
    # Of all machines that may boot the image, not of the one that it is made on.
    hostonly='' instmods nbd fuse loop ext4
}

install() {
    # The binary of the package, without what no initramfs needs; else the one that is installed. Shared libraries come along.
    local binary=/usr/lib/outboard/initramfs/outboard
    [ -x "$binary" ] || binary=$(command -v outboard)
    inst "$binary" /usr/bin/outboard
    inst_multiple modprobe ip mount readlink
    inst_hook cmdline 90 "$moddir/parse-outboard.sh"
    inst_hook initqueue/settled 50 "$moddir/attach-outboard.sh"
    inst_hook mount 90 "$moddir/mount-outboard.sh"
    dracut_need_initqueue
}
