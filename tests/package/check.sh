# What an administrator does with the packages, in a Debian that has only them. Any step that fails ends it.
# /packages has the packages, and in `upgrade` one of a later version.
set -eu

step() { echo "== $*"; }

# Fails when the command succeeds: `set -e` does not see the status of one behind `!`.
refuse() {
    if "$@"; then
        echo "this succeeds, and must not: $*" >&2
        exit 1
    fi
}

# Files of the system, but for what dpkg and its logs write about any package, and the copies that tools for users make
# before each change (passwd(5)).
files() {
    find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /tmp -o -path /packages -o -path /var/log \
        -o -path /var/lib/dpkg -o -path /var/cache -o -path /run \
        -o -path '/etc/*-' \) -prune -o -print | LC_ALL=C sort
}

files >/tmp/before
grep -v "^outboard:" /etc/passwd >/tmp/passwd

step "it is installed within 10 s"
begin=$(date +%s)
dpkg --install /packages/outboard_*.deb
test $(($(date +%s) - begin)) -lt 10
outboard --version | grep -E '^outboard [0-9.]+ \([0-9a-f]+(-dirty)?\)$'
id outboard
zcat /usr/share/man/man1/outboard-serve.1.gz | grep -q "listen"
zcat /usr/share/man/man5/outboard.toml.5.gz | grep -q "on_event"
zcat /usr/share/man/man7/outboard-disks.7.gz | grep -q "throttle"
bash -c 'source /usr/share/bash-completion/completions/outboard && complete -p outboard'
test -s /usr/share/doc/outboard/guide/tour.md

step "the rights of all that the binary has are named"
for holder in "Leon Sorokin" "sqlite.org" "ring-[0-9]" "tokio-[0-9]"; do
    grep -q "$holder" /usr/share/doc/outboard/copyright
done

step "its configuration and its units are right"
outboard serve --config /etc/outboard/outboard.toml --check
grep -q "^User=outboard" /lib/systemd/system/outboard.service

step "a disk is served, copied, verified and inspected"
cd /tmp
outboard disk create media.img 64M
head -c 1000000 /dev/urandom >data
outboard serve media=media.img --listen unix:/tmp/socket >/tmp/serve.log 2>&1 &
server=$!
for _ in $(seq 100); do test -S /tmp/socket && break; sleep 0.1; done
outboard copy --force --verify data "nbd+unix:///media?socket=/tmp/socket" || {
    cat /tmp/serve.log
    exit 1
}
outboard inspect "nbd+unix:///media?socket=/tmp/socket"
kill "$server"
wait "$server"
cmp -n 1000000 data media.img

step "an upgrade keeps the configuration that was edited"
echo "# edited" >>/etc/outboard/outboard.toml
dpkg --install /packages/upgrade/outboard_*.deb
dpkg --status outboard | grep "^Version: .*+upgrade$"
tail -n 1 /etc/outboard/outboard.toml | grep -q "# edited"

step "symbols are found by the build ID"
dpkg --install /packages/outboard_*.deb
dpkg --install /packages/outboard-dbgsym_*.deb
dpkg --listfiles outboard-dbgsym | grep -q '/usr/lib/debug/.build-id/../.*\.debug$'
dpkg --purge outboard-dbgsym

# Its number is not given to another user, to which disks that it owned would belong then.
step "a purge leaves nothing but the user, locked"
mkdir -p /var/lib/outboard
echo token >/var/lib/outboard/http-token
number=$(id --user outboard)
dpkg --purge outboard
files >/tmp/after
diff /tmp/before /tmp/after
grep -v "^outboard:" /etc/passwd | diff /tmp/passwd -
test "$(id --user outboard)" = "$number"
test "$(getent shadow outboard | cut -d: -f8)" = 1

step "a purge keeps disks of the user, and what is installed again has the user of before"
dpkg --install /packages/outboard_*.deb
test "$(id --user outboard)" = "$number"
test -z "$(getent shadow outboard | cut -d: -f8)"
mkdir -p /var/lib/outboard
echo precious >/var/lib/outboard/client.overlay
dpkg --purge outboard
test "$(cat /var/lib/outboard/client.overlay)" = precious

step "all is well"
