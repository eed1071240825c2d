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

# Files of the system, but for those of dpkg and systemd, and the copies that tools for users make before each change.
files() {
    find /etc /usr /var/lib \( -path /var/lib/dpkg -o -path /var/lib/systemd -o -path /var/lib/steps -o -path '/etc/*-' \) \
        -prune -o -print | LC_ALL=C sort
}

files >/tmp/before

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

step "an upgrade runs the new program with the configuration that was edited, and what is attached stays"
old=$(systemctl show outboard --property MainPID --value)
settings=$(md5sum </etc/outboard/outboard.toml)
dpkg --install /packages/upgrade/outboard_*.deb
systemctl is-active outboard
new=$(systemctl show outboard --property MainPID --value)
test "$new" -gt 0
test "$new" != "$old"
test "$(readlink "/proc/$new/exe")" = /usr/bin/outboard
test "$(md5sum </etc/outboard/outboard.toml)" = "$settings"
test "$(dd if=/mnt/media/photos iflag=direct bs=1M status=none | md5sum)" = "$sum"
echo more >/mnt/media/more
sync /mnt/media/more

step "attach at boot"
outboard detach /mnt/media
printf 'disk = "nbd://127.0.0.1:%s/media"\nmount = "/mnt/media"\n' "$nbd" >/etc/outboard/attach.d/media.toml
systemctl enable --now outboard-attach@media
test "$(md5sum </mnt/media/photos)" = "$sum"
test "$(cat /mnt/media/more)" = more

step "the package is not removed while a disk is in use"
mkdir /mnt/hand
outboard attach "memory(64M)" --mkfs ext4 --mount /mnt/hand
(cd /mnt/hand && exec sleep 1000) &
user=$!
sleep 1
refuse dpkg --remove outboard
mountpoint /mnt/hand
outboard status | grep /mnt/hand
systemctl start outboard-attach@media
kill "$user"
wait "$user" || true

step "a removal detaches what is attached, and stops what is served"
echo last >/mnt/media/last
dpkg --remove outboard
refuse mountpoint -q /mnt/media
refuse mountpoint -q /mnt/hand
test ! -e /run/outboard-attach
refuse systemctl is-active outboard outboard-attach@media
e2fsck -fn /srv/media.img
debugfs -R "cat /last" /srv/media.img 2>/dev/null | grep last

step "purge"
rm /etc/outboard/attach.d/media.toml
dpkg --purge outboard 2>/tmp/purge
refuse grep "is kept" /tmp/purge
test ! -e /usr/bin/outboard
test ! -e /etc/outboard
test ! -e /var/lib/outboard
test "$(stat --format %s /srv/media.img)" = 268435456
# Nor the links by which units were enabled.
files >/tmp/after
diff /tmp/before /tmp/after

step "all is well"
