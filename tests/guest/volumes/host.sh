# For scripts about volumes, on the host: how what the kernel made is read and compared. Images of the guest's
# disks are A.img and on. With KEEP=FOLDER in its environment a copy of each group stays there, with what LVM and
# the kernel reported about it.

# The images of these letters.
images() {
    echo "$*" | tr -d ' ' | sed 's/./&.img /g; s/ $//'
}

# volume IMAGES NAME: the expression of a volume of the group on these images.
volume() {
    echo "volume($(echo $1 | sed 's/ /, /g'), name=vg/$2)"
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
    "$@" </dev/null >output 2>&1 || {
        echo "failed: $*"
        cat output
        exit 1
    }
}

# The text that the guest left; without a new one it is the one before.
take_notes() {
    tr -d '\0' <NOTES.img >new
    test ! -s new || mv new notes
    blank NOTES.img
}

# Each sector is its number, over and over.
pattern() {
    perl -e 'print sprintf("%015d\n", $_) x 32 for 0 .. $ARGV[0] * 2048 - 1' $1 |
        dd of=PATTERN.img bs=1M conv=notrunc status=none
}

# equal EXPRESSION SIZE SUM: it reads as the kernel read it.
equal() {
    rm -f found
    quietly outboard copy "$1" found --detect-zeroes never
    if [ "$(stat -c %s found) $(md5sum <found)" != "$2 $3  -" ]; then
        echo "$1: other data; $(stat -c %s found) bytes, the kernel has $2"
        exit 1
    fi
    count=$((count + 1))
}

# An expression that may not be readable: never other data.
equal_or_refused() {
    rm -f found
    if outboard copy "$1" found --detect-zeroes never </dev/null >output 2>&1; then
        equal "$@"
    else
        refused=$((refused + 1))
    fi
}

# refused EXPRESSION WORD: it is not read, and the message has the word.
refused() {
    rm -f found
    if outboard copy "$1" found --detect-zeroes never </dev/null >output 2>&1; then
        echo "$1: not refused"
        exit 1
    fi
    grep -i -e "$2" output || {
        echo "$1: refused without a word about $2:"
        cat output
        exit 1
    }
    refused=$((refused + 1))
}

# Reads a volume from these images without each one, for redundancy 2 also without each pair; for a redundancy
# that is letters, without the images of these.
read_degraded() {
    case $5 in
    [A-F]*)
        left=$1
        for gone in $(images $5); do
            left=$(without "$left" $gone)
        done
        equal "$(volume "$left" $2)" $3 $4
        return
        ;;
    esac
    for gone in $1; do
        left=$(without "$1" $gone)
        case $5 in
        0) equal_or_refused "$(volume "$left" $2)" $3 $4 ;;
        *) equal "$(volume "$left" $2)" $3 $4 ;;
        esac
        test $5 = 2 || continue
        for second in $left; do
            # Each pair once.
            expr $gone \< $second >/dev/null || continue
            equal "$(volume "$(without "$left" $second)" $2)" $3 $4
        done
    done
}

# read_group NAME LETTERS: every volume in the notes that the guest left.
read_group() {
    take_notes
    name=$1 members=$(images $2) count=0 refused=0
    keep
    test -n "${KEEP_ONLY-}" || read_volumes
}

# Every volume in the notes, complete and without images; nothing is changed.
read_volumes() {
    stat -c '%n %y' $members >before
    while read -r word volume size sum redundancy; do
        test "$word" = volume || continue
        if [ "$redundancy" = refused ]; then
            refused "$(volume "$members" $volume)" "$volume"
            continue
        fi
        equal "$(volume "$members" $volume)" $size $sum
        read_degraded "$members" $volume $size $sum $redundancy
    done <notes
    stat -c '%n %y' $members | cmp - before || {
        echo "$name: reading changed an image"
        exit 1
    }
    echo "$name: equal, $count times; refused, $refused times"
}

# Makes the header of a physical volume one of those before LVM 2.02.99, without an extension.
old_header() {
    perl - $1 <<'P'
        open(my $file, "+<", $ARGV[0]) or die;
        binmode($file);
        seek($file, 512, 0);
        read($file, my $sector, 512);
        substr($sector, 0, 8) eq "LABELONE" or die "no label";
        # Behind the id and the size there are two lists of areas, each with an end.
        my ($at, $lists) = (32 + 40, 0);
        while ($lists < 2) {
            $lists++ if substr($sector, $at, 16) eq "\0" x 16;
            $at += 16;
        }
        unpack("V", substr($sector, $at, 4)) == 2 or die "no extension";
        substr($sector, $at) = "\0" x (512 - $at);
        my $sum = 0xf597a6cf;
        for my $byte (unpack("C*", substr($sector, 20))) {
            $sum ^= $byte;
            $sum = $sum & 1 ? ($sum >> 1) ^ 0xedb88320 : $sum >> 1 for 1 .. 8;
        }
        substr($sector, 16, 4) = pack("V", $sum);
        seek($file, 512, 0);
        print $file $sector;
P
}

# Keeps the images of the group with a description.
keep() {
    test -n "${KEEP-}" || return 0
    folder=$KEEP/$name
    rm -rf "$folder"
    mkdir -p "$folder/slices"
    for image in $members; do
        cp --sparse=always $image "$folder/"
    done
    cp -u PATTERN.img "$KEEP/"
    {
        echo "# $name"
        echo
        echo "Group vg on $members. PATTERN.img: each sector is its number in 15 digits and a newline, 32 times."
        echo
        echo "| volume | bytes | md5 | survives the loss of |"
        echo "|---|---|---|---|"
        sed -n 's/^volume \([^ ]*\) \([^ ]*\) \([^ ]*\) \([^ ]*\)/| \1 | \2 | \3 | \4 disks |/p' notes
        echo
        sed '/^volume /d; s/^@ /## /' notes
    } >"$folder/README.md"
    cp notes "$folder/notes"
    slices "$folder"
}

# Each volume that is linear on the disks, as a file: images, logs, stores and metadata without LVM.
slices() {
    perl - "$1" <<'P'
        my $folder = $ARGV[0];
        my ($section, %disk, %parts, %other) = "";
        open(my $notes, "<", "$folder/notes") or die;
        my @lines = <$notes>;
        for (@lines) {
            $section = $1 if /^@ (.*)/;
            $disk{$2} = uc($1) if $section eq "devices" && /^vd(.) (\d+:\d+)/;
        }
        for (@lines) {
            $section = $1 if /^@ (.*)/;
            next if $section ne "dmsetup table";
            next unless /^vg-(.*?): (\d+) (\d+) (\S+) ?(.*)/;
            my ($name, $start, $count, $kind, $rest) = ($1, $2, $3, $4, $5);
            $name =~ s/--/-/g;
            my ($device, $from) = split(/ /, $rest);
            if ($kind eq "linear" && $disk{$device}) { push @{$parts{$name}}, [$disk{$device}, $from, $count] }
            else { $other{$name} = 1 }
        }
        for my $name (keys %parts) {
            next if $other{$name};
            open(my $out, ">", "$folder/slices/$name.img") or die;
            for (@{$parts{$name}}) {
                my ($letter, $from, $count) = @$_;
                open(my $in, "<", "$folder/$letter.img") or die;
                seek($in, $from * 512, 0);
                read($in, my $bytes, $count * 512);
                print $out $bytes;
            }
        }
P
}
