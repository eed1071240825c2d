#!/bin/sh
# What a machine without a disk does after it was booted from the network: /usr/local/sbin/netboot-client of the golden
# image, called by its root at the serial console. $1 is the step; the exit status is the verdict.
#
# `xtask/src/netboot` kills the server and starts it again while `write` prints its lines.
set -eu
cd /

# How many files `write` makes.
count=40

# The root filesystem is the kernel's nbd, and there is nothing else to run from.
no_disk() {
    root=$(findmnt -no SOURCE /)
    case "$root" in
    /dev/nbd*) ;;
    *) echo "the root is on $root" && return 1 ;;
    esac
    for device in /sys/block/*; do
        case "${device##*/}" in
        nbd* | loop* | ram*) ;;
        *) echo "this machine has the disk ${device##*/}" && return 1 ;;
        esac
    done
    outboard status | grep -q connected
}

check_sums() {
    test "$(wc -l <sums)" = "$count"
    echo 3 >/proc/sys/vm/drop_caches
    sha256sum --check --quiet sums
}

case "$1" in
mark)
    no_disk
    echo "of the first client" >kept
    sync
    ;;
write)
    for number in $(seq "$count"); do
        dd if=/dev/urandom of="data-$number" bs=64k count=4 conv=fsync status=none
        sha256sum "data-$number" >>sums
        sync sums
        echo "@written $number"
    done
    check_sums
    ;;
kept)
    no_disk
    grep -qx "of the first client" kept
    check_sums
    ;;
empty)
    no_disk
    test ! -e kept
    test ! -e sums
    ;;
*)
    echo "there is no step $1"
    exit 2
    ;;
esac
