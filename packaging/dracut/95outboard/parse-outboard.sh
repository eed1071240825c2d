#!/bin/sh
# Takes the disk with the root filesystem from the kernel's command line, as packaging/initramfs-tools/local-top does:
#     outboard=nbd://192.0.2.1/root    the disk; without it nothing is done
#     outboard_via=kernel              which way to take: auto, kernel or fuse
#     ip=dhcp                          the network, as for any other root over it
#     rw                               mount it for writing; else /etc/fstab decides later

if getarg outboard= >/dev/null; then
    root=outboard
    rootok=1
    echo rd.neednet=1 >/etc/cmdline.d/90-outboard.conf
    wait_for_dev -n /run/outboard-attach/by-name/root
fi
