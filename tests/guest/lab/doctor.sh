# The doctor on a share of SMB, which takes the kernel's client: Samba on another network behind a wire that is held to
# 4 Mb/s, with an agent there; then behind one that takes 100 ms, one request at a
# time. Each answer is a file in /job/result; the host judges them.

SHARE=/scratch/share
STATE=/job/samba
FAR=10.9.0.2

# The shell of the guest prefers its own `ip`, which knows no namespaces, and its own `mount`, which knows no helpers.
ip() {
    /usr/bin/ip "$@"
}

far() {
    ip netns exec far "$@"
}

# Waits until a command works, ten seconds at most.
wait_for() {
    tries=0
    until "$@" 2>/dev/null; do
        tries=$((tries + 1))
        test $tries -lt 100 || { echo "this did not work in 10 s: $*"; return 1; }
        sleep 0.1
    done
}

set -eu
modprobe veth
modprobe sch_tbf
modprobe sch_netem
modprobe cifs
ip netns add far
ip link add near type veth peer name far0
ip link set far0 netns far
ip addr add 10.9.0.1/24 dev near
ip link set near up
far ip addr add $FAR/24 dev far0
far ip link set far0 up
far ip link set lo up

mkdir -p $SHARE $STATE /mnt/smb /var/log/samba
dd if=/dev/urandom of=$SHARE/film bs=1M count=32
cat >$STATE/smb.conf <<END
[global]
server role = standalone server
interfaces = $FAR/24
bind interfaces only = yes
smb ports = 445
map to guest = never
passdb backend = tdbsam
dos charset = ASCII
disable netbios = yes
disable spoolss = yes
load printers = no
printing = bsd
printcap name = /dev/null
private dir = $STATE
lock directory = $STATE
state directory = $STATE
cache directory = $STATE
pid directory = $STATE
ncalrpc dir = $STATE/ncalrpc
log file = $STATE/log
[film]
path = $SHARE
read only = no
valid users = root
END
printf 'word\nword\n' | pdbedit --configfile $STATE/smb.conf --create --user root --password-from-stdin
far smbd --foreground --no-process-group --configfile $STATE/smb.conf &
far outboard agent --insecure --listen $FAR:10811 --token-file $STATE/token --allow-iperf3 &
wait_for /usr/bin/mount -t cifs -o username=root,password=word,vers=3.1.1 //$FAR/film /mnt/smb

examine() {
    outboard doctor --json --seconds 60 /mnt/smb --block-size 32K --depth "$2" \
        --agent $FAR:10811 --agent-insecure --agent-token-file $STATE/token >/job/result/"$1".json
}

far tc qdisc add dev far0 root tbf rate 4mbit burst 16kb latency 50ms
examine wire 8
far tc qdisc del dev far0 root
far tc qdisc add dev far0 root netem delay 100ms
examine queue 1
umount /mnt/smb
