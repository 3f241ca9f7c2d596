# Cores of the simulated instance: which a process takes, what the vendor's variables say, whole instances, what others see of it; variables that nobody reads are answered
# (those for compilers: neuron-flags.sh).
. "${top_srcdir:=$(cd "$(dirname "$0")/.." && pwd)}/tests/setup.sh"
TCCC_LIBDIR=$top_builddir XDG_RUNTIME_DIR=$tmp/run
export TCCC_LIBDIR XDG_RUNTIME_DIR
unset TCCC_DEVICE TCCC_SIM TCCC_ORDER_SEED
mkdir "$tmp/run"
cd "$tmp" || exit 99

tccc --target=neuron:trn1 "$top_srcdir/tests/neuron/round.tcir" -o a.so || fail "a.so"
expect_status 0 tccc-neuron ls
grep -q '^instance-type: trn1.32xlarge (simulated)$' out && [ "$(wc -l <out)" -eq 19 ] || fail "ls: $(cat out)"
grep -q '^0      2      0-1       32 GiB   12, 4, 3, 1 *$' out || fail "ls: $(cat out)"
expect_status 0 tccc-neuron ls --core=trn2 --json
"${TEST_PYTHON:-python3}" -c "
import json
d = json.load(open('out'))
assert len(d) == 16 and d[0]['nc_count'] == 4 and d[0]['logical_neuroncore_config'] == 2 and sorted(d[0]['connected_to']) == [1, 3, 4, 12], d[0]" || fail "ls --json"

# The configuration in force: what the variable says, or (below) what processes have, or the vendor's default.
expect_status 0 env NEURON_LOGICAL_NC_CONFIG=2 tccc-neuron ls --core=trn3
grep -q '^logical-neuroncore-config: 2$' out && grep -q '^15     4      60-63     144 GiB  ' out || fail "ls, pairs: $(cat out)"
expect_status 2 env NEURON_LOGICAL_NC_CONFIG=2 tccc-neuron ls
grep -q 'NEURON_LOGICAL_NC_CONFIG=2: expected 1 on trn1' err || fail "$(cat err)"
expect_status 0 tccc-neuron ls --core=trn2
grep -q '^logical-neuroncore-config: 2$' out && grep -q '^15     4      60-63     96 GiB  ' out || fail "ls: $(cat out)"
expect_status 0 env NEURON_LOGICAL_NC_CONFIG=1 tccc-neuron ls --core=trn2
grep -q '^logical-neuroncore-config: 1$' out && grep -q '^15     8      120-127   96 GiB  ' out || fail "ls, one by one: $(cat out)"

# hold CORE COMMAND...: as somebody else who has that core, a process that lasts
hold() {
    core=$1
    shift
    mkdir -p run/tccc-neuron && : >>"run/tccc-neuron/trn1-$core"
    flock "run/tccc-neuron/trn1-$core" "$@"
}
command -v flock >/dev/null || skip "flock: install util-linux"
expect_status 0 tccc-run a.so --random
expect_status 0 env NEURON_RT_VISIBLE_CORES=4 tccc-run a.so --random
[ -f run/tccc-neuron/trn1-4 ] || fail "NEURON_RT_VISIBLE_CORES: $(ls run/tccc-neuron)"
hold 0 env tccc-run a.so --random >out 2>err || fail "a core that is taken: $(cat err)"
[ -f run/tccc-neuron/trn1-1 ] || fail "the next core: $(ls run/tccc-neuron)"
NEURON_RT_NUM_CORES=1 hold 0 tccc-run a.so --random >out 2>err && fail "no core is free"
grep -q 'no free core: other processes have all of 0 to 0' err || fail "$(cat err)"

# A process with two physical cores as a logical one.
tccc --target=neuron:trn2 --lnc=2 "$top_srcdir/tests/neuron/round.tcir" -o pair.so || fail "pair.so"
expect_status 0 tccc-run pair.so --random
flock run/tccc-neuron/trn2-0 flock run/tccc-neuron/trn2-1 tccc-neuron ls --core=trn2 >out 2>err || fail "ls of a pair: $(cat err)"
grep -q '^logical-neuroncore-config: 2$' out && grep -q '^0      4      0-3       96 GiB .* 0:.* 1:' out || fail "ls of a pair: $(cat out)"
rm -f run/tccc-neuron/*
tccc --target=neuron:trn2 --lnc=1 "$top_srcdir/tests/neuron/round.tcir" -o one.so || fail "one.so"
expect_status 0 tccc-run one.so --random
flock run/tccc-neuron/trn2-0 tccc-neuron ls --core=trn2 >out 2>err || fail "ls of a core: $(cat err)"
grep -q '^logical-neuroncore-config: 1$' out && grep -q '^0      8      0-7       96 GiB .* 0:' out || fail "ls of a core: $(cat out)"

# says STATUS TEXT VARIABLE...
says() {
    status=$1 text=$2
    shift 2
    expect_status "$status" env "$@" tccc-run a.so --random
    grep -q "$text" err || fail "$*: $(cat err)"
}
for list in x 3- 3-1 0,2 1,0 0-200 0,; do
    says 2 'NEURON_RT_VISIBLE_CORES=.*expected numbers and ranges' NEURON_RT_VISIBLE_CORES=$list
done
for list in 0-3 3-5,6 31; do
    expect_status 0 env NEURON_RT_VISIBLE_CORES=$list tccc-run a.so --random
done
says 2 'NEURON_RT_NUM_CORES=x: expected a number' NEURON_RT_NUM_CORES=x
says 3 'cores 30 to 32: the instance has 32' NEURON_RT_VISIBLE_CORES=30-32
says 3 'NEURON_LOGICAL_NC_CONFIG=2: the artifact was compiled for one physical core' NEURON_LOGICAL_NC_CONFIG=2
says 3 '4 workers on an instance: collectives take 1, 2, 8 or 32 cores of it' LOCAL_WORLD_SIZE=4
says 3 '8 workers of 16 on this instance: jobs of several instances take all 32' LOCAL_WORLD_SIZE=8 WORLD_SIZE=16
says 3 '8 workers: 4 cores are visible' LOCAL_WORLD_SIZE=8 NEURON_RT_NUM_CORES=4
rm -f run/tccc-neuron/*
expect_status 0 env LOCAL_WORLD_SIZE=8 LOCAL_RANK=5 tccc-run a.so --random
[ "$(ls run/tccc-neuron)" = trn1-5 ] || fail "a worker's core: $(ls run/tccc-neuron)"

# A process that lasts, as others see it.
tccc-bench a.so --runs 10000000 --sim=time >bench 2>&1 &
process=$!
tries=0
# a core is in use before its first launch
until tccc-neuron top >out && grep -q '^0 .*tccc-bench' out && tccc-neuron monitor --count 1 --period 0.05 | grep -q '"launches":[1-9]'; do
    tries=$((tries + 1))
    [ $tries -lt 100 ] || { kill $process; fail "top: $(cat out)"; }
    sleep 0.1
done
tccc-neuron monitor --count 2 --period 0.2 >monitor
tccc-neuron ls >ls
kill $process
wait $process 2>/dev/null
grep -q "0:$process(tccc-bench)" ls || fail "ls: $(cat ls)"
"${TEST_PYTHON:-python3}" -c "
import json
a, b = (json.loads(l)['neuron_runtime_data'][0] for l in open('monitor'))
assert a['pid'] == b['pid'] == $process
x, y = (c['report']['neuroncore_counters']['neuroncores_in_use']['0'] for c in (a, b))
assert 0 < x['launches'] < y['launches'] and 0 < x['modelled_s'] < y['modelled_s'] and 0 < y['utilization']['vector'] < 100, (x, y)" || fail "monitor: $(cat monitor)"
tccc-neuron top | grep -q ': 0 of 32 cores in use' || fail "a process that is gone has a core"
tccc-neuron top --core=trn2 | grep -q ': 0 of 128 physical cores in use' || fail "top of pairs"
tccc-neuron monitor --core=trn2 --count 1 | grep -q '"neuroncore_per_device_count":4,"logical_neuroncore_config":2' || fail "monitor of pairs"

# profile: time, counters and a trace.
expect_status 0 tccc-neuron profile "$top_srcdir/tests/fuzz/neuron/products.neuron" -o trace.json
grep -q '^modelled on trn1' out && grep -q '"name":"matmul"' trace.json || fail "profile: $(cat out)"

expect_status 2 tccc-neuron ls --core=inf1
grep -q -e '--core=inf1: expected trn1, trn2 or trn3' err || fail "$(cat err)"
expect_status 2 tccc-neuron top x
grep -q 'top takes no file' err || fail "$(cat err)"
expect_status 2 tccc-neuron monitor --period=0
grep -q -e '--period=0: expected seconds' err || fail "$(cat err)"

# Every variable of the table: read (somewhere in the sources), or answered by a warning that names it; misspelt ones are a warning.
sed -n 's/^VARIABLE(\([A-Z0-9_]*\), \([A-Z]*\), .*/\1 \2/p' "$top_srcdir/tools/neuron/env.def" >table
[ "$(wc -l <table)" -ge 28 ] || fail "the table: $(cat table)"
while read -r name answer; do
    if [ "$answer" = READ ]; then
        grep -rq "\"$name\"" "$top_srcdir/runtime" || fail "nothing reads $name"
        expect_status 0 env "$name=1" tccc --version
        grep -q warning err && fail "$name: $(cat err)"
    elif [ "$answer" = COMPILED ]; then
        grep -q "\"$name\"" "$top_srcdir"/tools/neuron/*.c || fail "nothing reads $name"
        expect_status 0 env "$name=1" tccc-run a.so --random
        grep -q warning err && fail "$name, without a compiler: $(cat err)"
    else
        expect_status 0 env "$name=1" tccc-run a.so --random
        grep -q "^warning: $name is not read: " err || fail "$name: $(cat err)"
        expect_status 0 env "$name=" tccc-run a.so --random
        grep -q warning err && fail "$name, empty: $(cat err)"
    fi
    grep -q "^| \`$name\` | " "$top_srcdir/doc/environment.md" || fail "$name is not in doc/environment.md"
done <table
expect_status 0 env NEURON_RT_VISIBLE_CORE=1 tccc-run a.so --random
grep -q '^warning: NEURON_RT_VISIBLE_CORE is not read: no variable of that name is known' err || fail "$(cat err)"

# neuronx-cc's words for casts.
for word in matmul matmult; do
    expect_status 0 tccc --target=neuron:trn1 "--auto-cast=$word" --auto-cast-type=bf16 --dim N=1 "$top_srcdir/samples/digits/digits.onnx" -o $word.so
done
expect_status 0 tccc --target=neuron:trn1 --auto-cast=none --dim N=1 "$top_srcdir/samples/digits/digits.onnx" -o none.so
expect_status 0 tccc --target=neuron:trn1 --dim N=1 "$top_srcdir/samples/digits/digits.onnx" -o plain.so
cmp matmul.so matmult.so && cmp none.so plain.so || fail "--auto-cast"
cmp -s matmul.so none.so && fail "--auto-cast=matmul casts nothing"
exit 0
