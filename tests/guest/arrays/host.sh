# For scripts about arrays, on the host: how members are made blank, arrays made, served and written. Images
# of the guest's disks are A.img and on, here.

# The members, if a call before this one left any.
if [ -e members ]; then
    members=$(cat members)
fi

# The images of these letters.
images() {
    echo "$*" | tr -d ' ' | sed 's/./&.img /g; s/ $//'
}

# These images as an array, with more arguments behind a comma.
array() {
    echo "array($(echo $1 | sed 's/ /, /g')${2-})"
}

# These images without one.
without() {
    echo " $1 " | sed "s/ $2 / /; s/^ //; s/ $//"
}

# Holes again, of the same size.
blank() {
    for image; do
        bytes=$(stat -c %s $image)
        truncate -s 0 $image
        truncate -s $bytes $image
    done
}

# Runs a program with output that matters only when it fails.
quietly() {
    "$@" >said 2>&1 || {
        echo "$*"
        cat said
        exit 1
    }
}

# Serves a disk, called photos, with more arguments behind it, at $uri, until `finish`.
serve() {
    rm -f socket
    disk=$1
    shift
    outboard serve "photos=$disk" "$@" --listen "unix:$PWD/socket" --exit-with-parent >served 2>&1 &
    server=$!
    uri="nbd+unix:///?socket=$PWD/socket"
    for _ in $(seq 1200); do
        test ! -e socket || return 0
        sleep 0.05
    done
    cat served
    exit 1
}

# One of the commands about arrays, for the one that is served: `photos` may be another server's too.
ask() {
    command=$1
    shift
    quietly outboard array $command photos "$@" --server $server
}

# Serves the array of $members, of which $first carries 6 MB a second: what it is grown by takes a while.
serve_slowly() {
    first=${members%% *}
    serve "array(throttle($PWD/$first, bytes=6M/s)$(echo " ${members#* }" | sed 's/ /, /g'))"
}

# Adds a spare (`-`: none) to what is served, and begins to grow it to a form, with commas for spaces.
ask_for() {
    test $1 = - || ask add --disk $PWD/$1.img
    ask grow $(echo $2 | tr , ' ')
}

# The new members (`-`: none) are members from now on.
with_new() {
    test $1 = - || members="$members $(images $1)"
    echo "$members" >members
}

# Ends the server in good order.
finish() {
    kill $server
    wait $server || {
        cat served
        exit 1
    }
}

# Writes for qemu-io, the same for the same seed: between two bytes, of 512 bytes to 128 KiB, some zeroes.
writes() {
    awk -v seed=$1 -v from=$2 -v to=$3 -v count=$4 'BEGIN {
        srand(seed)
        for (i = 0; i < count; i++) {
            len = 512 * (1 + int(rand() * (rand() < 0.5 ? 16 : 256)))
            offset = from + 512 * int(rand() * (to - from - len) / 512)
            fua = rand() < 0.1 ? "-f " : ""
            if (rand() < 0.15) print "write -z " fua offset " " len
            else print "write " fua "-P " int(rand() * 255) " " offset " " len
            if (rand() < 0.05) print "flush"
        }
    }'
}

# Writes a list to what is served, and to the model.
write_both() {
    quietly qemu-io -f raw "$uri" <$1
    quietly qemu-io -f raw model <$1
}

# As the guest's `sum`.
sum() {
    md5sum <$1 | cut -d ' ' -f 1
}

# The bytes of a disk expression are those of the model.
equal() {
    rm -f found
    quietly outboard copy "$1" found --detect-zeroes never
    cmp found model || {
        echo "$1: other data"
        exit 1
    }
}

# What mdadm says of a member, but what differs from array to array and from write to write.
examine() {
    mdadm --examine $1 |
        grep -v -E '(UUID|Creation Time|Update Time|Checksum|Events|Name|Minor) :|active sync' || true
}

# Notes what mdadm says of these members.
examined() {
    for image; do
        examine $image >$image.ours
    done
}

# mdadm says the same of what these are now.
alike() {
    for image; do
        examine $image | diff $image.ours - || {
            echo "$image: ours (<) is not what mdadm makes (>)"
            exit 1
        }
    done
}

# Makes an array of level $level of $members, with these options, full of what is in its model, on disks that are blank again.
make_array() {
    test "$(head -c 8 PATTERN.img | tr -d '\0')" ||
        head -c 16M /dev/urandom | dd of=PATTERN.img conv=notrunc status=none
    echo "$members" >members
    blank A.img B.img C.img D.img E.img
    quietly outboard array create $members --level=$level --name=photos "$@"
    serve "$(array "$members")"
    size=$(nbdinfo --size "$uri")
    head -c $size /dev/urandom >model
    quietly nbdcopy model "$uri"
    finish
}

# Writes to the model what the guest's `put` writes to the array.
put_model() {
    dd if=PATTERN.img of=model bs=1k skip=$2 seek=$1 count=$2 conv=notrunc status=none
}

# What the guest has done with the model: its `size`, its `sum`, and what was `put`.
of_model() {
    case $1 in
    size) stat -c %s model ;;
    sum) sum model ;;
    put) put_model $2 $3 ;;
    esac
}

# The model gets the size of what is served, zeroes behind what it has.
grow_model() {
    truncate -s $(nbdinfo --size "$uri") model
}

# The model gets the size that the array is to have after its reshape, as mdadm reads it from $first.
model_as_announced() {
    truncate -s $(mdadm --examine $first | sed -n 's/^ *Array Size : \([0-9]*\) .*/\1/p')K model
}

# How many of its writes a client saw acknowledged.
acknowledged() {
    grep -c 'wrote [0-9]' done.$1 || true
}

# Kills the server of the array while four clients write to it, each to a quarter of its own, when each has
# seen some writes acknowledged. Those go to the model; the write of each client that was next, which may be
# there or in part, is in next.0 to next.3. Arguments are what grep takes the lists without.
kill_while_written() {
    size=$(stat -c %s model)
    serve "$(array "$members")" --writers many
    clients=
    for client in 0 1 2 3; do
        writes $client $((size / 4 / 512 * 512 * client)) $((size / 4 / 512 * 512 * (client + 1))) 60000 |
            grep -v "$@" >list.$client
        qemu-io -f raw "$uri" <list.$client >done.$client 2>&1 &
        clients="$clients $!"
    done
    for client in 0 1 2 3; do
        for _ in $(seq 600); do
            test $(acknowledged $client) -lt 8 || break
            sleep 0.1
        done
    done
    kill -KILL $server
    wait $clients || true
    for client in 0 1 2 3; do
        count=$(acknowledged $client)
        echo "client $client: $count writes were acknowledged"
        if [ $count -lt 8 ] || [ $count -ge $(wc -l <list.$client) ]; then
            tail -n 3 done.$client
            echo "client $client was to be in the middle of its writes"
            exit 1
        fi
        head -n $count list.$client >list
        quietly qemu-io -f raw model <list
        sed -n "$((count + 1))p" list.$client >next.$client
    done
}

# What was acknowledged before the server was killed is there.
acknowledged_is_there() {
    rm -f found
    quietly outboard copy "$(array "$members")" found --detect-zeroes never
    for client in 0 1 2 3; do
        # Its last words are where, and how much.
        place=$(sed 's/.* \([0-9]* [0-9]*\)$/\1/' next.$client)
        for file in model found; do
            dd if=/dev/zero of=$file bs=512 seek=$((${place% *} / 512)) count=$((${place#* } / 512)) \
                conv=notrunc status=none
        done
    done
    cmp model found || {
        echo "something that was acknowledged is not there"
        exit 1
    }
}

# Copies the images of the guest as they are now, from letters to letters (as `tr` has them), to $copies.
copy_members() {
    copies=
    for image in $members; do
        copy=$(echo $image | tr $1 $2)
        cp --sparse=always $image copy
        # The same file: the guest has it open.
        blank $copy
        dd if=copy of=$copy bs=1M conv=sparse,notrunc status=none
        copies="$copies $copy"
    done
    copies=${copies# }
}

# That many bytes of the pattern, which were flushed, are in what was found.
flushed_is_there() {
    cmp --bytes=$1 found PATTERN.img || {
        echo "something that was flushed is not there"
        exit 1
    }
}
