# The samples that train, at small size: the MNIST network knows 97 % of held-out images, the GPT predicts held-out text better than
# a bigram model, ResNet-18 learns; in bf16 the first two reach float32's loss within 2 %. Needs Python with numpy and onnx, which write the models and draw the pictures.
. "${top_srcdir:=$(cd "$(dirname "$0")/.." && pwd)}/tests/setup.sh"
TCCC_LIBDIR=$top_builddir
export TCCC_LIBDIR
samples=$top_srcdir/samples
needs numpy onnx
cd "$tmp" || exit 99

# last NAME: the last evaluation's value in $tmp/out.
last() {
    sed -n "s/.*\"$1\":\([0-9.e+-]*\).*/\1/p" out | tail -n 1
}
# less A B: is A < B?
less() {
    awk -v a="$1" -v b="$2" 'BEGIN { exit !(a != "" && b != "" && a + 0 < b + 0) }'
}
# mean N: of the last N losses in $tmp/out.
mean() {
    grep -o '"loss":[0-9.e-]*' out | tail -n "$1" | awk -F: '{s += $2} END {print s / NR}'
}
# lower_types NAME MODEL STEPS LAST SEEDS "TRAINING OPTIONS" DATA OPTION...: the mean of the LAST losses of STEPS, over some seeds, by precision: of one
# seed the losses of a precision may be 5 % off by chance.
lower_types() {
    name=$1 model=$2 steps=$3 last=$4 seeds=$5 flags=$6 full=""
    shift 6
    for precision in float32 autocast bf16-sr; do
        # shellcheck disable=SC2086  # options
        expect_status 0 tccc --train $flags --precision=$precision "$model" -o lower.so
        : >losses
        for seed in $seeds; do
            expect_status 0 tccc-train lower.so --seed="$seed" --steps "$steps" "$@"
            mean "$last" >>losses
        done
        loss=$(awk '{s += $1} END {print s / NR}' losses)
        full=${full:-$loss}
        echo "$name in $precision: loss $loss"
        less "$loss" "$(awk -v f="$full" 'BEGIN {print 1.02 * f}')" || fail "$name in $precision: loss $loss, $full in float32"
    done
}

expect_status 0 "$TEST_PYTHON" "$samples/mnist/model.py" mnist.onnx
expect_status 0 "$TEST_PYTHON" "$samples/digits/draw.py" --training digits 5000
expect_status 0 tccc --train --loss=nll --optimizer=adadelta:lr=1 --lr-schedule=step:size=1,gamma=0.7 mnist.onnx -o mnist.so
expect_status 0 tccc-train mnist.so --data picture=digits/pictures.idx3-ubyte --data target=digits/labels.idx1-ubyte --batch-size 64 \
    --epochs 3 --eval-data "picture=$samples/digits/pictures.idx3-ubyte" --eval-data "target=$samples/digits/labels.idx1-ubyte"
less 0.9699 "$(last eval_accuracy)" || fail "mnist: accuracy $(last eval_accuracy)"
echo "mnist: accuracy $(last eval_accuracy)"
lower_types mnist mnist.onnx 78 30 "1 2 3 4${TCCC_TEST_FULL:+ 5 6 7 8}" "--loss=nll --optimizer=adam:lr=1e-3" --data picture=digits/pictures.idx3-ubyte \
    --data target=digits/labels.idx1-ubyte --batch-size 64

expect_status 0 sh "$samples/gpt/corpus.sh" corpus
expect_status 0 "$TEST_PYTHON" "$samples/gpt/model.py" gpt.onnx
expect_status 0 tccc --train --loss=cross_entropy --optimizer=adamw:lr=1.5e-3,weight_decay=0.1 gpt.onnx -o gpt.so
expect_status 0 sh "$samples/gpt/bigram.sh" corpus/training.txt corpus/held-out.txt
bigram=$(cat out)
expect_status 0 tccc-train gpt.so --batch-size 16 --steps 600 --lr-schedule=cosine:period=600,warmup=100,unit=step --eval-every 600 \
    --data ids=corpus/training.txt,dtype=u8,stride=32 --data target=corpus/training.txt,dtype=u8,stride=32,offset=1 \
    --eval-data ids=corpus/held-out.txt,dtype=u8 --eval-data target=corpus/held-out.txt,dtype=u8,offset=1
less "$(last eval_loss)" "$bigram" || fail "gpt: loss $(last eval_loss), bigram model $bigram"
echo "gpt: loss $(last eval_loss), bigram model $bigram"
lower_types gpt gpt.onnx 200 50 1 "--loss=cross_entropy --optimizer=adamw:lr=1.5e-3,weight_decay=0.1 --lr-schedule=cosine:period=600,warmup=100,unit=step" --batch-size 16 \
    --data ids=corpus/training.txt,dtype=u8,stride=32 --data target=corpus/training.txt,dtype=u8,stride=32,offset=1

expect_status 0 "$TEST_PYTHON" "$samples/resnet/model.py" resnet.onnx --width 8
expect_status 0 "$TEST_PYTHON" "$samples/resnet/colour.py" train 1500
expect_status 0 "$TEST_PYTHON" "$samples/resnet/colour.py" test 300 77
expect_status 0 tccc --train --loss=cross_entropy --optimizer=adamw:lr=5e-3,weight_decay=1e-2 resnet.onnx -o resnet.so
expect_status 0 tccc-train resnet.so --batch-size 32 --epochs 3 --drop-last --data picture=train/pictures.idx4-ubyte,mean=0.5,std=0.25 \
    --data target=train/labels.idx1-ubyte --eval-data picture=test/pictures.idx4-ubyte,mean=0.5,std=0.25 \
    --eval-data target=test/labels.idx1-ubyte
less 0.85 "$(last eval_accuracy)" || fail "resnet: accuracy $(last eval_accuracy)"
echo "resnet: accuracy $(last eval_accuracy)"
