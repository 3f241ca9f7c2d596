# The vendor's variables for compilers, where tccc compiles for NeuronCores: NEURON_CC_FLAGS, the cache's folder, compiling without running, everything in bf16, buckets.
. "${top_srcdir:=$(cd "$(dirname "$0")/.." && pwd)}/tests/setup.sh"
TCCC_LIBDIR=$top_builddir
export TCCC_LIBDIR
unset TCCC_DEVICE TCCC_SIM TCCC_ORDER_SEED
cd "$tmp" || exit 99
model=$top_srcdir/samples/digits/digits.onnx

# same VARIABLE OPTION...: with the variable, the artifact is the one that the options make
same() {
    variable=$1
    shift
    expect_status 0 env "$variable" tccc --target=neuron:trn1 --dim N=1 $train "$model" -o there.so
    mv err said
    expect_status 0 tccc --target=neuron:trn1 --dim N=1 $train "$@" "$model" -o here.so
    cmp -s there.so here.so || fail "$variable is not $*"
}
train=
expect_status 0 tccc --target=neuron:trn1 --dim N=1 "$model" -o plain.so
same NEURON_CC_FLAGS="--auto-cast=matmult --auto-cast-type bf16" --auto-cast=matmul --auto-cast-type=bf16
cmp -s here.so plain.so && fail "--auto-cast=matmult casts nothing"
[ ! -s said ] || fail "warnings: $(cat said)"
same NEURON_CC_FLAGS="-O1" -O1
same NEURON_CC_FLAGS="-O 1" -O1
same NEURON_CC_FLAGS="--optlevel=3 --optlevel 1 --target=trn1 --framework=XLA -lnc=1 --lnc 1 --enable-mixed-precision-accumulation" -O1
[ ! -s said ] || fail "warnings: $(cat said)"
same NEURON_CC_FLAGS="--model-type=transformer --native-int64 all"
grep -q '^warning: NEURON_CC_FLAGS: --model-type changes nothing: ' said && grep -q -e '--native-int64 changes nothing' said || fail "$(cat said)"
expect_status 0 env NEURON_CC_FLAGS="-O1 --auto-cast=all" TCCC_FLAGS=-O3 tccc --target=neuron:trn1 --dim N=1 --auto-cast=none "$model" -o there.so
expect_status 0 tccc --target=neuron:trn1 --dim N=1 -O3 "$model" -o here.so
cmp -s there.so here.so || fail "the command line and TCCC_FLAGS don't win"
expect_status 0 env NEURON_CC_FLAGS=--nonsense tccc "$model" -o cpu.so
[ ! -s err ] || fail "NEURON_CC_FLAGS, on the CPU: $(cat err)"

# Full bf16, of a model and of a step.
same XLA_USE_BF16=1 --auto-cast=all
grep -q '^warning: XLA_USE_BF16 is deprecated by the vendor: --auto-cast=all is what it does here' said || fail "$(cat said)"
train="--train --loss=cross_entropy --optimizer=sgd:lr=0.1 --data-parallel"
same XLA_DOWNCAST_BF16=1 --precision=bf16-sr
same XLA_USE_BF16=0
same ALLREDUCE_GRADIENTS_BUCKET_SIZE_MB=50 --bucket-cap-mb=50
same BUCKET_CAP_MB=0.001 --bucket-cap-mb=0.001
train=
# The cache; what is compiled and not run is there for the run that follows.
expect_status 0 env NEURON_COMPILE_CACHE_URL="$tmp/cache" NEURON_EXTRACT_GRAPHS_ONLY=1 tccc-run --target=neuron:trn1 --dim N=1 "$model" --random
grep -q '^note: compiled into the cache; NEURON_EXTRACT_GRAPHS_ONLY is set: nothing is run' err && [ ! -s out ] || fail "$(cat out err)"
[ -n "$(find cache -type f)" ] || fail "nothing is in the cache"
find cache -type f | sort >before
expect_status 0 env NEURON_COMPILE_CACHE_URL="file://$tmp/cache" tccc-run --target=neuron:trn1 --dim N=1 "$model" --random
[ -s out ] && find cache -type f | sort | cmp -s - before || fail "compiled twice"
expect_status 0 env NEURON_CC_FLAGS="--cache_dir=$tmp/own" NEURON_COMPILE_CACHE_URL="$tmp/cache2" tccc --target=neuron:trn1 --dim N=1 "$model" -o there.so
[ -d own ] && [ ! -d cache2 ] || fail "--cache_dir"
expect_status 0 env NEURON_CC_FLAGS="--cache_dir=$tmp/own2 --no_cache" tccc --target=neuron:trn1 --dim N=1 "$model" -o there.so
[ ! -d own2 ] || fail "--no_cache"
train="--loss=cross_entropy --optimizer=sgd:lr=0.1"
for rank in 1 0; do
    expect_status 0 env LOCAL_RANK=$rank NEURON_EXTRACT_GRAPHS_ONLY=1 NEURON_COMPILE_CACHE_URL="$tmp/steps" tccc-train --target=neuron:trn1 --dim N=1 $train "$model" --data nothing.npz --quiet
    [ ! -s err ] || fail "$(cat err)"
    [ "$rank" = 0 ] || [ ! -d steps ] || fail "every process of a machine compiles"
done
[ -d steps ] || fail "nothing compiled"

# refused TEXT VARIABLE
refused() {
    expect_status 2 env "$2" tccc-run --target=neuron:trn1 --dim N=1 "$model" --random
    grep -q -e "$1" err || fail "$2: $(cat err)"
}
refused "holds '--autocast', which neuronx-cc doesn't have" NEURON_CC_FLAGS=--autocast
refused "'--target' requires an argument" NEURON_CC_FLAGS=--target
refused "'--no_cache' takes no argument" NEURON_CC_FLAGS=--no_cache=1
refused "has '--target=trn2', the command line --target=neuron:trn1" NEURON_CC_FLAGS=--target=trn2
refused "--lnc=2: a logical core of two physical ones is for --target=neuron:trn2 and neuron:trn3, not neuron:trn1" NEURON_CC_FLAGS=--lnc=2
refused "auto-cast-type=tf32" NEURON_CC_FLAGS="--auto-cast=all --auto-cast-type=tf32"
refused "NEURON_COMPILE_CACHE_URL=s3://a/b: expected a folder" NEURON_COMPILE_CACHE_URL=s3://a/b
refused "NEURON_EXTRACT_GRAPHS_ONLY keeps what is compiled" NEURON_EXTRACT_GRAPHS_ONLY=1
# Several programs at once, and the report of them: a failed one is begun again as often as the variable says, the others are there.
printf '# two that are well, one that is not\n\n--target=neuron:trn1 --dim N=1 %s -o one.so\n--target=neuron:trn1 --dim N=2 %s --output=a\\ b.so\n  --target=neuron:trn1 nothing.onnx -o three.so\n' "$model" "$model" >jobs
expect_status 1 env NEURON_PARALLEL_COMPILE_MAX_RETRIES=2 tccc-neuron compile jobs -j 2
grep -q '^{"compilation_summary":{"true":2,"false":1},"compilation_report":{$' out && grep -q '^"one.so":{"status":true,"retry":0,"seconds":[0-9.]*},$' out && grep -q '^"a b.so":{"status":true,"retry":0,' out &&
    grep -q '^"three.so":{"status":false,"retry":2,.*},$' out && grep -q '^"seconds":[0-9.]*,"processes":2}$' out || fail "compile: $(cat out err)"
[ "$(grep -c "nothing.onnx" err)" -eq 3 ] && grep -q '^error: 1 of 3 programs could not be compiled' err || fail "compile: $(cat err)"
[ -f one.so ] && [ -f 'a b.so' ] && [ ! -f three.so ] || fail "compile: what is there: $(ls)"
sed -i '$d' jobs
expect_status 0 tccc-neuron compile jobs -o report.json
grep -q '"compilation_summary":{"true":2}' report.json && [ ! -s out ] || fail "compile -o: $(cat report.json out)"
expect_status 2 env NEURON_PARALLEL_COMPILE_MAX_RETRIES=often tccc-neuron compile jobs
echo '# nothing' >jobs
expect_status 1 tccc-neuron compile jobs
grep -q 'jobs: no line has a program to compile' err || fail "compile: $(cat err)"
# neuronx-cc's words on the command line.
expect_status 0 tccc --target=neuron:trn1 --dim N=1 --optlevel=1 --model-type=transformer --lnc=1 "$model" -o there.so
expect_status 0 tccc --target=neuron:trn1 --dim N=1 -O1 "$model" -o here.so
cmp -s there.so here.so || fail "--optlevel"
expect_status 0 env NEURON_CC_FLAGS="-lnc=2" tccc --target=neuron:trn2 --dim N=1 "$model" -o there.so
expect_status 0 tccc --target=neuron:trn2 --lnc=2 --dim N=1 "$model" -o here.so
cmp -s there.so here.so || fail "-lnc=2"
expect_status 0 tccc --target=neuron:trn2 --dim N=1 "$model" -o here.so
cmp -s there.so here.so || fail "--lnc=2 is the default"
expect_status 0 env NEURON_CC_FLAGS="-lnc=1" tccc --target=neuron:trn2 --dim N=1 "$model" -o here.so
cmp -s there.so here.so && fail "-lnc=1 changes nothing"
expect_status 2 tccc --model-type=gpt "$model" -o there.so
grep -q -e '--model-type=gpt: expected generic, transformer or unet-inference' err || fail "$(cat err)"
expect_status 2 tccc -O2 --optlevel=1 "$model" -o there.so
grep -q -e '-O and --optlevel are the same' err || fail "$(cat err)"
exit 0
