#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A table of N flats on standard output. usage: flats.sh N
awk -v n="$1" 'BEGIN {
    srand(5)
    print "id,size,rooms,floor,garden,rent"
    for (i = 0; i < n; i++) {
        size = rand() * 2; rooms = 1 + int(size * 2 + rand()); floor = int(rand() * 6); garden = floor == 0 && rand() < 0.5 ? "yes" : "no"
        rent = 0.4 + 0.9 * size + 0.05 * rooms + 0.03 * floor + 0.3 * (garden == "yes") + (rand() - 0.5) * 0.1
        printf "%d,%s,%d,%d,%s,%.3f\n", i, rand() < 0.03 ? "" : sprintf("%.2f", size), rooms, floor, garden, rent
    }
}'
