# RAID 5 of four, written at random in 4 KiB: ours by the kernel's nbd and by fio's own NBD client, the kernel's md, and a
# plain file by the kernel's nbd, which is the cost of the way without an array, in turns. The members are files in memory,
# for md behind loop devices. RUNTIME and ROUNDS are set; a report of fio for each measurement is left in /job/result. The
# kernel's nbd is detached before fio's client connects: an export has one writer.

SIZE=160M
set -eu
mkdir -p /mnt/ours /mnt/md
mount -t tmpfs tmpfs /mnt/ours
mount -t tmpfs tmpfs /mnt/md
modprobe raid456
for name in a b c d; do
    truncate -s $SIZE /mnt/ours/$name /mnt/md/$name
done
truncate -s $SIZE /mnt/ours/plain
loops=
for name in a b c d; do
    loops="$loops $(losetup -f)"
    losetup "$(losetup -f)" /mnt/md/$name
done

# Files of zeroes have parity that fits. Both keep a bitmap.
outboard array create --assume-clean --level 5 -k bitmap --chunk 512K /mnt/ours/a /mnt/ours/b /mnt/ours/c /mnt/ours/d
# shellcheck disable=SC2086
mdadm --create /dev/md0 --run --assume-clean --level 5 --raid-devices 4 --chunk 512K --bitmap internal \
    --bitmap-chunk 64M $loops
outboard serve 'd=array(/mnt/ours/a, /mnt/ours/b, /mnt/ours/c, /mnt/ours/d)' f=/mnt/ours/plain \
    --listen unix:/run/ours &
for _ in $(seq 100); do
    test ! -S /run/ours || break
    sleep 0.1
done

measure() {
    name=$1
    shift
    fio --name=write --rw=randwrite --bs=4k --iodepth=32 --numjobs=1 --time_based --norandommap --randrepeat=0 \
        --runtime="$RUNTIME" --percentile_list=50:99:99.9 --lat_percentiles=1 --clat_percentiles=0 \
        --output-format=json --output="/job/result/$name.json" "$@"
}

attached() {
    device=$(outboard attach "nbd+unix:///$2?socket=/run/ours" --via kernel)
    measure "$1" --ioengine=libaio --direct=1 --filename="$device"
    outboard detach "$device"
}

for round in $(seq "$ROUNDS"); do
    attached "kernel-$round" d
    measure "md-$round" --ioengine=libaio --direct=1 --filename=/dev/md0
    measure "client-$round" --ioengine=nbd --uri='nbd+unix:///d?socket=/run/ours'
    attached "file-$round" f
done
mdadm --stop /dev/md0
