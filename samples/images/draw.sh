#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Draws pictures of 20 x 20 pixels: DIR/SHAPE/NNN.ppm, a bright shape of random place, size and colour on a dark ground.
# usage: draw.sh DIR PICTURES SEED SHAPE...     (shapes: cross, disc, ring, square)
dir=$1 count=$2 seed=$3
shift 3
for shape in "$@"; do
    mkdir -p "$dir/$shape" || exit 1
    awk -v dir="$dir/$shape" -v n="$count" -v seed="$seed" -v shape="$shape" '
        function colour(k) { r[k] = 150 * k + int(rand() * 105); g[k] = 150 * k + int(rand() * 105); b[k] = 150 * k + int(rand() * 105) }
        BEGIN {
            srand(seed + length(shape) * 1000)
            for (i = 0; i < n; i++) {
                colour(0)
                colour(1)
                x = 7 + rand() * 6; y = 7 + rand() * 6; s = 4 + rand() * 3
                file = sprintf("%s/%04d.ppm", dir, i)
                printf "P3\n20 20\n255\n" >file
                for (v = 0; v < 20; v++)
                    for (u = 0; u < 20; u++) {
                        dx = u - x; dy = v - y; d = sqrt(dx * dx + dy * dy)
                        ax = dx < 0 ? -dx : dx; ay = dy < 0 ? -dy : dy
                        inside = shape == "disc" ? d < s : shape == "ring" ? d < s && d > s - 2 : shape == "square" ? ax < s - 1 && ay < s - 1 : (ax < 1.5 && ay < s) || (ay < 1.5 && ax < s)
                        printf "%d %d %d\n", r[inside], g[inside], b[inside] >file
                    }
                close(file)
            }
        }' || exit 1
done
