# A mirror with halves that were each written without the other (finding 1 of the study: the kernel takes the
# second half back and leaves the two different, without a word). We open neither half of such a pair with
# the other, say of each what it went through, and write nothing. With the side that counts given, we make the other
# one like it, all of it, and the kernel's check finds nothing. So it is for halves that the kernel ran, that
# we ran, and that one of us ran each.
#: outboard host
#: processors 1
#: disk A 24M
#: disk B 24M
#: disk PATTERN 2M
#: timeout 300

. /guest/arrays.sh
disks=$(devices AB)

# The kernel runs one half and writes it.
alone() {
    blockdev --flushbufs $1
    quietly mdadm --assemble --run /dev/md0 $1
    dd if=/dev/urandom of=/dev/md0 bs=64k seek=$2 count=10 conv=fsync,notrunc 2>/dev/null
    sleep 1
    stop
}

judge() {
    for side in A B; do
        host save
        host prefer $side
        assemble
        same "$name, data of $side" "$(sum /dev/md0)" "$(host sum)"
        check
        stop
        host restore
    done
    echo "$name: refused, and mended as told"
}

for options in --bitmap=64K --bitmap=none; do
    name="both halves by the kernel, $options"
    host begin $options
    alone /dev/vda 10
    alone /dev/vdb 200
    host refused
    judge

    name="A by us, B by the kernel, $options"
    host begin $options
    host alone A 1
    alone /dev/vdb 200
    host refused
    judge

    name="both halves by us, $options"
    host begin $options
    host alone A 1
    host alone B 2
    host refused
    judge
done
#: host
. "$SCRIPTS/arrays/host.sh"

case $1 in
begin)
    blank A.img B.img
    quietly outboard array create A.img B.img --level=1 --name=photos --assume-clean $2
    serve "array(A.img, B.img)"
    size=$(nbdinfo --size "$uri")
    head -c $size /dev/urandom >model
    quietly nbdcopy model "$uri"
    finish
    ;;
alone)
    serve "array($2.img, run=true)"
    writes $3 0 20000000 20 >list
    quietly qemu-io -f raw "$uri" <list
    finish
    ;;
refused)
    md5sum A.img B.img >before
    if outboard serve "array(A.img, B.img)" --listen "unix:$PWD/socket" --exit-with-parent >said 2>&1; then
        echo "it was served"
        exit 1
    fi
    cat said
    grep -q A.img said
    grep -q B.img said
    grep -q prefer said
    if outboard array status A.img B.img >said 2>&1; then
        cat said
    fi
    md5sum A.img B.img | cmp before -
    ;;
save)
    cp --sparse=always A.img A.kept
    cp --sparse=always B.img B.kept
    ;;
restore)
    dd if=A.kept of=A.img bs=1M conv=notrunc status=none
    dd if=B.kept of=B.img bs=1M conv=notrunc status=none
    ;;
prefer)
    # What that side holds by itself.
    rm -f model
    quietly outboard copy "array($2.img, run=true)" model --detect-zeroes never
    serve "array(A.img, B.img, prefer=$2.img)"
    ask wait
    finish
    equal "array(A.img, B.img)"
    ;;
sum)
    sum model
    ;;
esac
