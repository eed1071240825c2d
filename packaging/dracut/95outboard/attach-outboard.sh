#!/bin/sh
# Attaches the disk with the root filesystem once this machine has an address, by any configuration of the network. dracut runs
# it again and again until the disk is there.

if disk=$(getarg outboard=) && [ ! -e /run/outboard-attach/by-name/root ] &&
    [ -n "$(ip -4 -oneline address show scope global)" ]; then
    via=$(getarg outboard_via=)
    modprobe -a -q nbd fuse loop
    # A root filesystem waits for its server for as long as it takes: a day here.
    outboard attach "$disk" --for-root --name root --via "${via:-auto}" --wait 180 --timeout 86400 ||
        die "outboard: the root filesystem was not attached"
fi
