# shellcheck shell=sh disable=SC2154
# Part of html.tap, sourced by it: pages of stored reports (tests/html/reports) as a browser shows them, beside stored pictures (tests/html/pictures). `page still` makes a page that
# is drawn the same everywhere but for how fonts are; compare.js says what counts as the same. `sh tests/html.tap --update` stores the pictures anew: look at them.
pictures=$top_srcdir/tests/html/pictures

# shoot PAGE OUT WIDTH HEIGHT [OPTION...]
shoot() {
    page=$1 out=$2 size=$3,$4
    shift 4
    timeout 60 "$browser" --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --user-data-dir="$tmp/profile" --hide-scrollbars --force-device-scale-factor=1 \
        --run-all-compositor-stages-before-draw --disable-low-res-tiling --virtual-time-budget=3000 --window-size="$size" "$@" --screenshot="$tmp/$out" "file://$tmp/$page" >browser.log 2>&1 && [ -s "$out" ]
}

# differ STORED SHOT: the lines of compare.js in `seen`, "blocks=0" where the pictures are the same.
differ() {
    page beside "$1" "$2" "$top_srcdir/tests/html/compare.js" beside.html || return 1
    for _ in 1 2 3; do
        timeout 60 "$browser" --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --user-data-dir="$tmp/profile" --virtual-time-budget=20000 --dump-dom \
            "file://$tmp/beside.html" >dom.html 2>browser.log && page probed dom.html >seen && grep -q -e '^blocks=' -e '^size: ' seen && return 0
    done
    return 1
}

even="--font-render-hinting=none --disable-lcd-text"
light=--blink-settings=preferredColorScheme=1 dark=--blink-settings=preferredColorScheme=0

# picture NAME REPORT KIND WIDTH HEIGHT [OPTION...]
picture() {
    name=$1 report=$2 kind=$3 width=$4 height=$5
    shift 5
    # shellcheck disable=SC2086  # options
    "$top_builddir/tests/html/draw" "$kind" "$top_srcdir/tests/html/reports/$report.json" >drawn.html 2>err && page still drawn.html "$name.still.html" 2>err &&
        shoot "$name.still.html" "$name.png" "$width" "$height" $even "$@" || return 1
    [ -z "$update" ] || page pack "$name.png" "$pictures/$name.png" || return 1
    for _ in 1 2; do # a busy machine's browser may have left out what it had not drawn yet
        differ "$pictures/$name.png" "$name.png" && cp seen log && grep -qx blocks=0 seen && return 0
        # shellcheck disable=SC2086
        shoot "$name.still.html" "$name.png" "$width" "$height" $even "$@"
    done
    differ "$pictures/$name.png" "$name.png" && cp seen log && grep -qx blocks=0 seen
}

# without REPORT WHAT SAYS: the page lacks what the regular expression finds first, and the pictures differ.
without() {
    # shellcheck disable=SC2086
    page lacks "$1.still.html" "$2" lacking.html 2>err && shoot lacking.html lacking.png 1000 "$4" $even $light && differ "$pictures/$1.png" lacking.png && cp seen log && ! grep -qx blocks=0 seen
    result "a picture of a page without $3 is another one" $?
}

picture compile compile facts 1000 2650 $light
result "picture: a compilation" $?
picture stages stages facts 1000 1500 $light
result "picture: a step in stages" $?
picture run run report 1000 2050 $light
result "picture: a run" $?
picture train train report 1000 3000 $light
result "picture: training" $?
picture compare compare report 1000 1150 $light
result "picture: layer by layer" $?
picture dark train report 1000 1400 $dark
result "picture: training, dark" $?
picture phone run report 420 1800 $light
result "picture: a run on a phone" $?

without train '<polyline class="line c0".*?/>' "a curve" 3000
without train '<span class="key c1">.*?</span>' "an entry of a legend" 3000
without train '<text [^>]*class="e">.*?</text>' "a figure at an axis" 3000
without train '<tr>(?:(?!<tr>).)*?wait(?:(?!<tr>).)*?</tr>' "a row of a table" 3000
without train '<span class="mark">.*?</span></h2>' "what an answer is worth" 3000
without compile '<rect class="block.*?</rect>' "a buffer" 2650
without compile '<path class="edge"[^>]*/>' "an edge of the graph" 2650
without run '<circle class="dot.*?</circle>' "a kernel under the roof" 2050
without run '<path class="roof"[^>]*/>' "the roof" 2050
without stages '<rect class="c1".*?</rect>' "a task of a stage" 1500

# Letters drawn in another way are the same picture.
drawn() {
    sed "s/text-rendering: geometricPrecision;/$2/" train.still.html >fonts.html && ! cmp -s train.still.html fonts.html || return 1
    # shellcheck disable=SC2086
    shoot fonts.html fonts.png 1000 3000 $3 $light && differ "$pictures/train.png" fonts.png && cp seen log && grep -qx blocks=0 seen
    result "the same picture with $1" $?
}
drawn "full hinting" "text-rendering: auto;" "--font-render-hinting=full"
drawn "letters half a pixel further" "text-rendering: geometricPrecision; } main, header { position: relative; left: .5px; top: .5px;" "$even"
