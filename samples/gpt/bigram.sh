#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The loss (nats a byte) on HELD-OUT of a bigram model that counts the bytes of TRAINING, each pair once more than it was seen.
# usage: bigram.sh TRAINING HELD-OUT
{ od -An -v -tu1 -w1 "$1"; echo next; od -An -v -tu1 -w1 "$2"; } | awk '
    $1 == "next" { held = 1; last = ""; next }
    last != "" && !held { pairs[last, $1]++; seen[last]++ }
    last != "" && held { sum -= log((pairs[last, $1] + 1) / (seen[last] + 256)); n++ }
    { last = $1 }
    END { printf "%.4f\n", sum / n }'
