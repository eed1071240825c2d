#!/bin/sh
# Mounts the root filesystem: with systemd too, as its generator knows only what `root=` names.

if getarg outboard= >/dev/null && ! ismounted "$NEWROOT"; then
    mode=ro
    if getarg rw >/dev/null; then
        mode=rw
    fi
    mount -o "$mode" "$(readlink -f /run/outboard-attach/by-name/root)" "$NEWROOT"
fi
