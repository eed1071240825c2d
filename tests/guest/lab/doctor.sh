# The doctor on a share of SMB, which takes the kernel's client: Samba on another network behind a wire that is held to
# 16 Mb/s, with an agent there; then the same behind a free wire, with two hundredths of a processor for the server. Each
# answer is a file in /job/result; the host judges them.

SHARE=/scratch/share
STATE=/job/samba
FAR=10.9.0.2

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
modprobe cifs
ip netns add far
ip link add near type veth peer name far0
ip link set far0 netns far
ip addr add 10.9.0.1/24 dev near
ip link set near up
far ip addr add $FAR/24 dev far0
far ip link set far0 up
far ip link set lo up

mkdir -p $SHARE $STATE /mnt/smb
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
mkdir /sys/fs/cgroup/samba 2>/dev/null || {
    mount -t cgroup2 cgroup2 /sys/fs/cgroup
    mkdir /sys/fs/cgroup/samba
}
echo +cpu >/sys/fs/cgroup/cgroup.subtree_control
far sh -c "echo \$\$ >$STATE/pid; exec smbd --foreground --no-process-group --configfile $STATE/smb.conf" &
wait_for test -s $STATE/pid
cat $STATE/pid >/sys/fs/cgroup/samba/cgroup.procs
far outboard agent --insecure --listen $FAR:10811 --token-file $STATE/token &
wait_for mount -t cifs -o username=root,password=word,vers=3.1.1 //$FAR/film /mnt/smb

examine() {
    outboard doctor --json --seconds 60 /mnt/smb/film --block-size 128K --depth 8 \
        --agent $FAR:10811 --agent-insecure --agent-token-file $STATE/token >/job/result/"$1".json
}

far tc qdisc add dev far0 root tbf rate 16mbit burst 32kb latency 50ms
examine wire
far tc qdisc del dev far0 root
echo "2000 100000" >/sys/fs/cgroup/samba/cpu.max
examine server
umount /mnt/smb
