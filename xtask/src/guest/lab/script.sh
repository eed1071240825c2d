# A run of the lab, or a script that needs what the lab's guest has. /job has `script`, or the run's `arguments`, one a line,
# and the plan. It works on a new filesystem on the first disk. What
# it made becomes a tar on the second one: the store and what the program printed. Its progress and its errors are on
# the console; a line `stop` from there ends it with what was measured.

# There is no udev: device-mapper makes its nodes by itself.
export DM_DISABLE_UDEV=1 LVM_SUPPRESS_FD_WARNINGS=1 HOME=/root TERM=vt100
hostname guest
mkdir -p /root /scratch /job/result
chmod 700 /root
ln -sf /busybox/sh /bin/sh
for module in virtio_blk ext4 loop fuse dm-mod md-mod nbd nfsd; do
    modprobe $module || echo "module $module does not load"
done

# All tables are written now: nothing of the filesystem's own is left to be done while it is measured.
mkfs.ext4 -q -i 262144 -J size=64 -E lazy_itable_init=0,lazy_journal_init=0 /dev/vda
mount /dev/vda /scratch

# The kernel's NFS server, of version 4 only, which needs no further service and no grace period.
mkdir -p /var/lib/nfs/v4recovery /var/lib/nfs/sm /run/lock
touch /var/lib/nfs/etab /var/lib/nfs/rmtab
if mount -t nfsd nfsd /proc/fs/nfsd; then
    echo 10 >/proc/fs/nfsd/nfsv4leasetime
    echo 10 >/proc/fs/nfsd/nfsv4gracetime
    rpc.mountd --no-nfs-version 3 && rpc.nfsd --no-nfs-version 3 --host 127.0.0.1 8
    echo Y >/proc/fs/nfsd/v4_end_grace
fi || echo "there is no NFS server"

cd /job
code=0
if test -f script; then
    sh ./script || code=$?
else
    set --
    while IFS= read -r word; do
        set -- "$@" "$word"
    done <arguments
    /usr/bin/outboard "$@" >result/output &
    program=$!
    while IFS= read -r word; do
        test "$word" = stop && kill -TERM $program
    done </dev/ttyS1 &
    listener=$!
    wait $program || code=$?
    kill $listener
fi
tar -cf /dev/vdb -C result .
sync
umount /scratch || echo "the scratch disk is busy"
# The progress bar leaves its line open, and the status has to begin one.
echo
exit $code
