# An image of Ceph as a disk of the kernel, loaded by fio in turns: served by ours to the kernel's nbd, by rbd-nbd to the same, and
# attached by ours itself, with FUSE and a loop device. MONITOR (of the cluster on the host), IMAGE, ROUNDS and FIO (the load) are
# set; of each measurement a report of fio, and the ticks of the processor that the server took, are left in /job/result.

set -eu
# The cluster's addresses are of the host's loopback: here they lead to the host, and not to this machine.
echo 1 >/proc/sys/net/ipv4/conf/eth0/route_localnet
ip address del 127.0.0.1/8 dev lo
ip route add 127.0.0.1/32 via 10.0.2.2 dev eth0
mkdir -p /etc/ceph /var/run/ceph
cat >/etc/ceph/ceph.conf <<END
[global]
mon host = $MONITOR
auth cluster required = none
auth service required = none
auth client required = none
log file =
admin socket =
END

# The ticks of all processes of a program.
ticks() {
    for id in $(pidof "$1"); do
        cut -d ' ' -f 14-17 "/proc/$id/stat"
    done | awk '{ sum += $1 + $2 + $3 + $4 } END { print sum + 0 }'
}

# Loads the disk $2, served by the program $3, for the measurement $1.
measure() {
    # A write and a flush, as of each filesystem: until the first flush librbd writes through its cache.
    dd if=/dev/zero of="$2" bs=4k count=1 conv=fsync,notrunc
    before=$(ticks "$3")
    # shellcheck disable=SC2086
    fio --name=load $FIO --time_based --norandommap --randrepeat=0 --ioengine=libaio --direct=1 --filename="$2" \
        --percentile_list=50:99:99.9 --lat_percentiles=1 --clat_percentiles=0 \
        --output-format=json --output="/job/result/$1.json"
    echo $(($(ticks "$3") - before)) >"/job/result/$1.ticks"
}

kernel() {
    outboard serve "rbd:$IMAGE" --listen unix:/run/ours &
    server=$!
    for _ in $(seq 600); do
        test ! -S /run/ours || break
        sleep 0.1
    done
    device=$(outboard attach 'nbd+unix:///?socket=/run/ours' --via kernel)
    measure "$1" "$device" outboard
    outboard detach "$device"
    kill -TERM $server
    wait $server
    rm -f /run/ours
}

rbd_nbd() {
    device=$(rbd-nbd map "$IMAGE")
    # It prints the device before that has its size.
    for _ in $(seq 600); do
        test "$(cat "/sys/block/${device#/dev/}/size")" = 0 || break
        sleep 0.1
    done
    measure "$1" "$device" rbd-nbd
    rbd-nbd unmap "$device"
    for _ in $(seq 600); do
        pidof rbd-nbd || break
        sleep 0.1
    done
}

fuse() {
    device=$(outboard attach "rbd:$IMAGE")
    measure "$1" "$device" outboard
    outboard detach "$device"
}

for round in $(seq "$ROUNDS"); do
    kernel "kernel-$round"
    rbd_nbd "rbd-nbd-$round"
    fuse "fuse-$round"
done
