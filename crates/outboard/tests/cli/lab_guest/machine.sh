#!/bin/sh
# Plays QEMU: says on its console what the lab's guest says, and leaves the tar of results that stands ready
# beside it. The files of its disks are open before it speaks, as QEMU's are.
here=$(dirname "$0")
trap 'touch "$here/interrupted"; exit 1' INT
echo $$ >"$here/started"
for word; do
    case $word in
    file=*/input,*) input=${word#file=} ;;
    file=*/result,*) result=${word#file=} ;;
    esac
done
exec 3<"${input%%,*}" 4<>"${result%%,*}"
if test -e "$here/quiet"; then
    # A machine that boots for longer than anybody waits.
    read -r never
    exit 1
fi
echo "@progress making the scratch disk"
tar -xf - -C "$here" ./arguments ./plan.toml <&3
if test -e "$here/measures"; then
    touch "$here/measuring"
    read -r word
    test "$word" = stop || exit 1
fi
if test -e "$here/spoils"; then
    # Something happens to the user's store meanwhile.
    echo "no store" >"$here/../own.sqlite"
fi
tar -cf - -C "$here/out" . >&4
echo "@exit 0"
