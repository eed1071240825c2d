# Thin and cached volumes that LVM and the kernel make read equal through volume(…): thin volumes with holes, their
# snapshots, snapshots of those, a thin volume over an external origin; caches that are written through, and a
# written-back one that was cleaned. A cache that alone has some blocks is refused.
#: outboard host
#: processors 1
#: disk A 48M
#: disk B 48M
#: disk C 48M
#: disk D 48M
#: disk E 48M
#: disk F 48M
#: disk PATTERN 64M
#: disk NOTES 1M
#: timeout 600

. /guest/volumes.sh

# How many blocks of a cached volume went to the cache, and how many are only there.
promoted() {
    dmsetup status vg-$1 | awk '{ print $13 }'
}
dirty() {
    dmsetup status vg-$1 | awk '{ print $14 }'
}

host pattern 64

group ABCDEF
quietly lvm lvcreate -q -y --type thin-pool -L 32M --poolmetadatasize 4M -c 64k -n pool vg
quietly lvm lvcreate -q -y -V 24M --thinpool pool -n thin vg
fill thin 0 6
fill thin 20 2 10
quietly lvm lvcreate -q -y -s -kn -ay -n frozen vg/thin
fill thin 30 2 3
fill frozen 41 1
quietly lvm lvcreate -q -y -s -kn -ay -n second vg/frozen
fill second 43 1 11
quietly lvm lvcreate -q -y -V 4M --thinpool pool -n empty vg
volume outside 0 48 6 vg
quietly lvm lvchange -q -an vg/outside
quietly lvm lvchange -q -pr vg/outside
quietly lvm lvcreate -q -y -s -kn -ay --thinpool vg/pool -n inside vg/outside
fill inside 55 1 2
# Behind the end of its external origin.
quietly lvm lvextend -q -L 10M vg/inside
quietly lvm lvchange -q -ay vg/outside
for name in thin frozen second empty inside; do
    judged $name 0
done
sync
usage=$(lvm lvs -q --noheadings -o data_percent,metadata_percent vg/pool)
judge thin
host usage $letters $usage

group ABCDEF
for name in through cleaned dirty; do
    volume $name 0 0 8 vg /dev/vda
done
volume single 0 8 8 vg /dev/vda
for name in through cleaned dirty; do
    mode=writeback
    test $name != through || mode=writethrough
    quietly lvm lvcreate -q -y --type cache-pool -L 4M --poolmetadatasize 2M -c 32k --cachemode $mode \
        -n fast$name vg /dev/vdb
    quietly lvm lvconvert -q -y --type cache --cachepool vg/fast$name vg/$name
done
quietly lvm lvcreate -q -y -L 6M -n fast vg /dev/vdb
quietly lvm lvconvert -q -y --type cache --cachevol fast --cachemode writethrough -c 32k vg/single
for name in through cleaned dirty single; do
    fill $name 20 2 1
    # What is used often is cached, after a while.
    for turn in $(seq 300); do
        quietly dd if=/dev/vdg of=/dev/mapper/vg-$name bs=64k skip=$((turn + 400)) seek=16 count=4 conv=fsync,notrunc
        test $(promoted $name) -lt 4 || break
        sleep 0.05
    done
    echo "$name: $(promoted $name) blocks are in the cache, $(dirty $name) only there"
done
quietly lvm lvchange -q --cachepolicy cleaner vg/cleaned
for _ in $(seq 50); do
    test "$(dirty cleaned)" != 0 || break
    sleep 0.1
done
same "dirty blocks of a cleaned cache" "$(dirty cleaned)" 0
# The kernel cleans by itself, slowly.
fill dirty 33 1 1
test "$(dirty dirty)" -gt 0
describe
# A power cut leaves caches of which nothing says that they are clean; the end of the group's activity cleans them.
cp /tmp/notes /tmp/clean
sed -i '/^volume \(cleaned\|dirty\) /s/ 0$/ refused/' /tmp/notes
hand_over
host read cache-cut $letters
deactivate
cp /tmp/clean /tmp/notes
hand_over
host read cache $letters
#: host
. "$SCRIPTS/volumes/host.sh"

case $1 in
blank) blank $(images $2) ;;
pattern) pattern $2 ;;
read) read_group $2 $3 ;;
# usage LETTERS DATA METADATA: the live page shows these percentages of the pool, metadata as they are after LVM's last commit.
usage)
    outboard serve "$(volume "$(images $2)" thin)" --read-only --listen "unix:$PWD/socket" --http 127.0.0.1:0 \
        --exit-with-parent >served 2>&1 &
    server=$!
    for _ in $(seq 600); do
        if grep -qs 'live page' served; then break; fi
        sleep 0.1
    done
    page=$(sed -n 's,live page: http://\(.*\)/,\1,p' served)
    perl -MIO::Socket::INET - "$page" $3 $4 <<'P'
        my ($page, @expected) = @ARGV;
        my $socket = IO::Socket::INET->new($page) or die "no page";
        print $socket "GET /api/status HTTP/1.1\r\nHost: $page\r\nConnection: close\r\n\r\n";
        my $text = join("", <$socket>);
        $text =~ /"name":"pool","data":(\d+),"data_used":(\d+),"metadata":(\d+),"metadata_used":(\d+)/ or die $text;
        my @found = map { sprintf("%.2f", $_) } 100 * $2 / $1, 100 * $4 / $3;
        print "the page shows @found, LVM @expected\n";
        exit(abs($found[0] - $expected[0]) > 0.01 || abs($found[1] - $expected[1]) > 1);
P
    kill $server
    wait $server
    ;;
esac
