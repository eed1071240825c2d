# Our attachment through the kernel's nbd when something of it has died: with our process killed the
# device lives on and detach loses nothing; with the server gone detach ends in time, says that data
# may be lost, and leaves nothing behind either. A disk on two servers that is only read continues with the second one,
# also when the first one falls silent.
#: serve DISK 256M
#: outboard
#: timeout 320

uri="nbd://10.0.2.2:$DISK/"

nothing_left() {
    name=${device#/dev/}
    for what in "/sys/block/$name/pid" /mnt/disk $(pidof outboard) $(find /run -type f); do
        if [ -e "$what" ] || [ -e "/proc/$what" ]; then
            echo "left behind: $what"
            exit 1
        fi
    done
    sectors=$(cat "/sys/block/$name/size")
    if [ "$sectors" != 0 ]; then
        echo "$name still has $sectors sectors"
        exit 1
    fi
}

has() {
    grep -q "$1" /tmp/answer || {
        cat /tmp/answer
        echo "'$1' is not in what was printed"
        exit 1
    }
}
status_has() {
    outboard status >/tmp/answer
    has "$1"
}

device=$(outboard attach "$uri" --via kernel)
mkfs.ext4 -q -F "$device"
outboard detach "$device"

outboard attach "$uri" --via kernel --mount /mnt/disk
kill -9 "$(pidof outboard)"
dd if=/dev/urandom of=/tmp/data bs=64k count=32 2>/dev/null
cp /tmp/data /mnt/disk/data
outboard detach /mnt/disk
nothing_left

outboard attach "$uri" --via kernel --mount /mnt/disk
cmp /tmp/data /mnt/disk/data
echo unsaved >/mnt/disk/unsaved
echo "@kill DISK"
sleep 2
outboard status
if outboard detach /mnt/disk --timeout 3 2>/tmp/answer; then
    echo "a detach without a server went well"
    exit 1
fi
cat /tmp/answer
has lost
nothing_left

echo "@start DISK"
sleep 2
outboard attach "$uri" --via kernel --mount /mnt/disk
cmp /tmp/data /mnt/disk/data
outboard detach --all
nothing_left

# Copies of an image on two servers of this guest: the first one is killed, and the device reads from the second. Then the second one
# stops to answer without an end of its connections: the device returns to the first one after the 15 s of a request, where a client that
# dials one server after the other would dial the second one for another 15 s.
dd if=/dev/urandom of=/tmp/one.img bs=64k count=64 2>/dev/null
cp /tmp/one.img /tmp/two.img
# The copy "$1" on port "$2", until it can be reached.
serve_copy() {
    outboard serve --config "/tmp/$1.toml" >"/tmp/$1.log" 2>&1 &
    echo $! >"/tmp/$1.pid"
    for _ in $(seq 60); do
        outboard ls "nbd://127.0.0.1:$2" >/dev/null 2>&1 && return 0
        sleep 0.5
    done
    cat "/tmp/$1.log"
    echo "the server of $1 does not listen"
    exit 1
}
for copy in one:7001 two:7002; do
    name=${copy%:*}
    port=${copy#*:}
    cat >"/tmp/$name.toml" <<EOF
listen = ["127.0.0.1:$port"]
[[export]]
name = "root"
disk = "/tmp/$name.img"
read_only = true
identity = "golden-1"
EOF
    serve_copy "$name" "$port"
done
pair="nbd://127.0.0.1:7001,127.0.0.1:7002/root"
if outboard attach "$pair" --via kernel 2>/tmp/answer; then
    echo "the kernel's client took two servers for writing"
    exit 1
fi
has read-only
device=$(outboard attach "$pair" --via kernel --read-only --wait 20)
status_has "server nbd://127.0.0.1:7001/root"
kill -9 "$(cat /tmp/one.pid)"
cmp /tmp/two.img "$device"
status_has "server nbd://127.0.0.1:7002/root"
serve_copy one 7001
kill -STOP "$(cat /tmp/two.pid)"
echo 3 >/proc/sys/vm/drop_caches
started=$(cut -d. -f1 /proc/uptime)
dd if="$device" of=/dev/null bs=4k count=1 2>/dev/null &
reader=$!
until outboard status | grep -q "server nbd://127.0.0.1:7001/root"; do
    sleep 1
    if [ $(($(cut -d. -f1 /proc/uptime) - started)) -gt 27 ]; then
        outboard status
        echo "the first server is not used 27 s after the second one fell silent"
        exit 1
    fi
done
echo "moved after $(($(cut -d. -f1 /proc/uptime) - started)) s"
wait $reader
echo "read after $(($(cut -d. -f1 /proc/uptime) - started)) s"
cmp /tmp/one.img "$device"
outboard detach --all
kill -CONT "$(cat /tmp/two.pid)"
kill "$(cat /tmp/one.pid)" "$(cat /tmp/two.pid)"
