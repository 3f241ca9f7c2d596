#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Text to train on: this repository's own documents and public headers (Apache-2.0); the last tenth is held out.
# usage: corpus.sh FOLDER   (writes FOLDER/training.txt and FOLDER/held-out.txt)
top=$(cd "$(dirname "$0")/../.." && pwd) || exit 1
mkdir -p "$1" && cat "$top"/README.md "$top"/CONTRIBUTING.md "$top"/doc/*.md "$top"/runtime/*.h "$top"/compiler/*.h "$top"/ir/*.h \
    "$top"/passes/*.h "$top"/passes/*/*.h "$top"/runtime/*.c "$top"/runtime/*/*.c >"$1/all" || exit 1
size=$(wc -c <"$1/all")
head -c $((size / 10 * 9)) "$1/all" >"$1/training.txt" && tail -c +$((size / 10 * 9 + 1)) "$1/all" >"$1/held-out.txt" && rm "$1/all"
