# Reshapes that are cut at many places, begun by us or by the kernel's md, and ended by the other one. The places come from a seed:
#
# * ours: the server is killed at some moment of a reshape, while it is written; the kernel makes parity fit and ends it;
# * the kernel's: the array is stopped at some moment; we end the reshape, while it is written.
#
# The data are what was written, and the kernel's check finds no difference.
#: outboard host
#: processors 1
#: disk A 10M
#: disk B 10M
#: disk C 10M
#: disk D 10M
#: disk E 10M
#: disk PATTERN 16M
#: timeout 600
#: long

. /guest/arrays.sh

# Ours is cut after so many ms: cut MS LEVEL MEMBERS NEW FORM [OPTION…]
cut_ours() {
    after=$1 level=$2 letters=$3 new=$4 form=$5
    shift 5
    name="ours, level $level, cut after $after ms"
    host begin $level $letters "$@"
    host cut_reshape $after $new $form
    disks="$(devices $letters$new)"
    assemble
    good "ended by the kernel"
    stop
}

# The kernel's is cut after so many tenths of a second: cut_theirs TENTHS LEVEL MEMBERS NEW COUNT [OPTION…]
cut_theirs() {
    after=$1 level=$2 letters=$3 new=$4 count=$5
    shift 5
    name="the kernel's, level $level, cut after $after tenths of a second"
    host begin $level $letters "$@"
    disks="$(devices $letters)"
    assemble
    begin_to_grow $new $count
    put 1000 100
    sleep $((after / 10)).$((after % 10))
    disks="$(devices $letters$new)"
    stop
    at_full_speed
    host end_reshape $new
    assemble
    good "ended by us"
    stop
}

for after in 150 280 400 530; do
    cut_ours $after 5 ABC D --devices,4 --chunk=16K --consistency-policy=bitmap
done
for after in 200 340 470 610; do
    cut_ours $after 6 ABCD E --devices,5 --chunk=16K --consistency-policy=bitmap
done
for after in 2 9 16 23; do
    cut_theirs $after 5 ABC D 4 --chunk=16K --consistency-policy=bitmap
done
for after in 4 8 14 21; do
    cut_theirs $after 6 ABCD E 5 --chunk=16K --consistency-policy=bitmap
done
host cuts
#: host
. "$SCRIPTS/arrays/host.sh"

case $1 in
begin)
    level=$2 members=$(images $3)
    shift 3
    make_array --assume-clean "$@"
    ;;
size | sum | put)
    of_model "$@"
    ;;
cut_reshape)
    serve_slowly
    ask_for $3 $4
    writes $2 0 3000000 5 >list
    write_both list
    sleep 0.$2
    kill -KILL $server
    wait $server || true
    mdadm --examine $first | grep "Reshape pos'n" >>cuts || echo "none: it had ended" >>cuts
    with_new $3
    model_as_announced
    ;;
end_reshape)
    with_new $2
    mdadm --examine $2.img | grep "Reshape pos'n" >>cuts || echo "none: it had ended" >>cuts
    serve "$(array "$members")"
    writes 6 0 3000000 20 >list
    write_both list
    ask wait
    grow_model
    finish
    mdadm --examine $2.img | grep "Reshape pos'n" && exit 1
    equal "$(array "$members")"
    ;;
cuts)
    cat cuts
    # Most of them are in the midst of a reshape, at different places; on a busy machine some are at the same one.
    places=$(grep "pos'n" cuts | sort -u | wc -l)
    test $places -ge 5 || {
        echo "only $places places"
        exit 1
    }
    ;;
esac
