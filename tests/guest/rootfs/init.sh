#!/bin/busybox sh
# The first process of a root filesystem that our server serves: shows that the system runs from it,
# writes and reads it, also with its server killed and started again, and leaves a proof that the host
# looks for in the image. /run/how says which way the initramfs attached it.
/bin/busybox --install -s /bin
export PATH=/bin:/usr/bin HOME=/tmp
how=$(cat /run/how)

prove() {
    device=$(awk '$2 == "/" && $3 == "ext4" { print $1 }' /proc/mounts)
    case "$how $device" in
    "fuse /dev/loop"* | "kernel /dev/nbd"* | "stock /dev/nbd"*) ;;
    *) echo "attached by $how, the root is on $device" && return 1 ;;
    esac
    dd if=/dev/urandom of=/before bs=64k count=16 conv=fsync 2>/dev/null
    (cd / && sha256sum before) >/sums
    if test "$how" != stock; then outlive; fi
    echo 3 >/proc/sys/vm/drop_caches
    (cd / && sha256sum -c /sums)
    proof=$(cat /proc/sys/kernel/random/uuid)
    echo "$proof" >/proof
    sync
    mount -o remount,ro /
    echo "@proof DISK $proof"
}

# The server goes away and returns under a writer; the process behind the disk outlives the end of all
# others, answers, and is not detached.
outlive() {
    echo "@kill DISK"
    sleep 1
    dd if=/dev/urandom of=/while-away bs=64k count=16 conv=fsync 2>/dev/null &
    sleep 1
    echo "@start DISK"
    wait
    (cd / && sha256sum while-away) >>/sums
    kill -TERM -1
    sleep 1
    outboard status
    outboard status | grep -q connected
    tr '\0' ' ' <"/proc/$(pidof outboard)/cmdline"
    if outboard detach "$device"; then
        echo "the root filesystem was detached"
        return 1
    fi
}

(set -eu; prove)
echo "@exit $?"
sync
poweroff -f
