# Comments and pages name files that exist: each word ending in .c, .h or .def in a comment of the product, and in a page, is the path of a file, or the end of one.
# Names of users' files, of other projects and of what is generated are listed here.
. "${top_srcdir:=$(cd "$(dirname "$0")/.." && pwd)}/tests/setup.sh"
cd "$top_srcdir" || fail "no source tree"

others='FILE.c NAME.c NAME.h Python.h app.c classify.c complex.h decode.h digits.h e_log.c llm.c main.c mine.h model.h mpi.h net.h nvrtc.h one.c openjpeg.h out.h pool.map step.h
X86TargetParser.def Resample.c ucp.h'
find base runtime sim ir passes compiler tools -name '*.[ch]' -o -name '*.def' | sort >"$tmp/files"
[ -s "$tmp/files" ] || fail "no sources found"
find doc -name '*.md' ! -name decisions.md | sort >"$tmp/pages" # decisions tell of what was
find . -path ./build -prune -o -type f -name '*.*' -print | sed 's/^\.\///' >"$tmp/there"

awk -v others="$others" '
    BEGIN { n = split(others, list); for (i = 1; i <= n; i++) known[list[i]] = 1 }
    FILENAME ~ /there$/ { n = split($0, part, "/"); name = part[n]; known[name] = 1; for (i = n - 1; i > 0; i--) { name = part[i] "/" name; known[name] = 1 } next }
    FNR == 1 { inside = 0 }
    {
        page = FILENAME ~ /\.md$/; text = page ? $0 : ""; rest = page ? "" : $0
        while (rest != "") {                   # what of the line is comment
            if (inside) {
                at = index(rest, "*/")
                text = text " " (at ? substr(rest, 1, at - 1) : rest)
                rest = at ? substr(rest, at + 2) : ""
                inside = !at
            } else {
                at = index(rest, "/*")
                rest = at ? substr(rest, at + 2) : ""
                inside = at > 0
            }
        }
        while (match(text, /[A-Za-z0-9_.\/$*{<>+-]+\.(c|h|def)([^A-Za-z0-9_*-]|$)/)) {
            word = substr(text, RSTART, RLENGTH); text = substr(text, RSTART + RLENGTH - 1)
            if (text == "" || length(text) < 2) text = ""
            sub(/[^A-Za-z0-9_]$/, "", word)
            n = split(word, part, "/")
            if (word ~ /[$*{<>+]/ || word ~ /^[.\/-]/ || (word in known) || (part[n] in known && n > 1 && part[n] ~ /^(NAME\.c|X86TargetParser\.def|Resample\.c|ucp\.h)$/)) continue
            print FILENAME ":" FNR ": there is no " word; bad = 1
        }
    }
    END { exit bad }' "$tmp/there" $(cat "$tmp/files" "$tmp/pages") || fail "names of files that are not there"
exit 0
