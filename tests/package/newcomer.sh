# A newcomer's session from the package alone, in a booted systemd. Any step that fails ends it. The host opens the page
# that the file `page` names, and makes `seen` then.
set -eu

. ./ports

step() { echo "== $*"; }

# Fails when the command succeeds: `set -e` does not see the status of one behind `!`.
refuse() {
    if "$@"; then
        echo "this succeeds, and must not: $*" >&2
        exit 1
    fi
}

now() { date +%s%N; }

# The milliseconds since that time.
since() { echo $((($(now) - $1) / 1000000)); }

# A container has no devices but the least.
test -c /dev/fuse || mknod /dev/fuse c 10 229
test -c /dev/loop-control || mknod /dev/loop-control c 10 237
for number in $(seq 0 63); do
    test -b "/dev/loop$number" || mknod "/dev/loop$number" b 7 "$number"
done

step "install"
begin=$(now)
dpkg --install /packages/outboard_*.deb
took=$(since "$begin")
echo "installed in $took ms"
test "$took" -lt 10000

step "the version, within 10 ms"
best=1000000000
for _ in $(seq 30); do
    begin=$(now)
    outboard --version >/dev/null
    took=$(($(now) - begin))
    test "$took" -ge "$best" || best=$took
done
echo "$(outboard --version), in $((best / 1000)) us"
test "$best" -lt 10000000

step "the manual"
for page in "1 outboard" "1 outboard-serve" "1 outboard-attach" "5 outboard.toml" "7 outboard-disks" "7 outboard-formats"; do
    MANPAGER=cat man $page >/tmp/page 2>/tmp/errors
    test "$(wc -l </tmp/page)" -gt 20
    test ! -s /tmp/errors
done

step "a disk, and the configuration"
outboard disk create /srv/media.img 256M
chown outboard /srv/media.img
sed -i -e "s/^listen = .*/listen = [\"127.0.0.1:$nbd\"]/" -e "s/^# http = .*/http = \"127.0.0.1:$http\"/" \
    /etc/outboard/outboard.toml
printf '\n[[export]]\nname = "media"\ndisk = "/srv/media.img"\n' >>/etc/outboard/outboard.toml
outboard serve --config /etc/outboard/outboard.toml --check

step "start"
systemctl enable --now outboard
systemctl is-active outboard
outboard ls "nbd://127.0.0.1:$nbd/"
outboard status

step "attach"
mkdir /mnt/media
outboard attach "nbd://127.0.0.1:$nbd/media" --mkfs ext4 --mount /mnt/media
head -c 20000000 /dev/urandom >/mnt/media/photos
sync
outboard status
sum=$(md5sum </mnt/media/photos)

step "the page, in a browser"
echo "http://127.0.0.1:$http/" >part
mv part page
waited=0
until test -e seen; do
    dd if=/mnt/media/photos of=/dev/null bs=64k count=16 iflag=direct status=none
    waited=$((waited + 1))
    test "$waited" -lt 600
    sleep 0.2
done

step "attach at boot"
outboard detach /mnt/media
printf 'disk = "nbd://127.0.0.1:%s/media"\nmount = "/mnt/media"\n' "$nbd" >/etc/outboard/attach.d/media.toml
systemctl enable --now outboard-attach@media
test "$(md5sum </mnt/media/photos)" = "$sum"
systemctl disable --now outboard-attach@media
rm /etc/outboard/attach.d/media.toml

step "purge"
dpkg --purge outboard
test ! -e /usr/bin/outboard
test ! -e /etc/outboard
test ! -e /var/lib/outboard
refuse id outboard
refuse systemctl is-active outboard
test "$(stat --format %s /srv/media.img)" = 268435456

step "all is well"
