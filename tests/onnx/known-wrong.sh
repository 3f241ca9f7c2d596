# usage: known-wrong.sh BUILD CASES FILE.wrong [OPTION...]: the cases whose answers are known to differ may differ no more than FILE says, a
# line each:
#   CASE RTOL ATOL [OPTION...]   within that of the stored answer; with the OPTIONs it is the stored answer
#   CASE digest SUM              the outputs' files are these (POSIX cksum of all output_*, in order)
#   CASE says TEXT               there is no answer: the run ends with a message that holds TEXT
# Prints a TAP line a case. OPTIONs are given to tccc-run.
build=$1 cases=$2 file=$3
shift 3
out=$(mktemp -d "${TMPDIR:-/tmp}/tccc-wrong.XXXXXX") || exit 99
trap 'rm -rf "$out"' EXIT
sed -e 's/#.*//' -e '/^[[:space:]]*$/d' "$file" >"$out/list"
while read -r name rtol atol rest; do
    good=1
    run() { "$build/tccc-run" "$@" "$cases/$name/model.onnx" --test-data "$cases"/"$name"/test_data_set_* >"$out/log" 2>&1 </dev/null; }
    case $rtol in
    digest)
        run "$@" --output-dir "$out/data"
        [ "$(cat "$out"/data/output_* | cksum | cut -d ' ' -f 1)" = "$atol" ] || good=""
        echo "digest $(cat "$out"/data/output_* 2>/dev/null | cksum | cut -d ' ' -f 1)" >>"$out/log"
        rm -rf "$out/data"
        ;;
    says)
        run "$@"
        grep -q -F -e "$atol${rest:+ $rest}" "$out/log" || good=""
        ;;
    [0-9]*)
        run "$@" --rtol "$rtol" --atol-abs "${atol:-0}" || good=""
        # shellcheck disable=SC2086  # options
        [ -z "$good" ] || [ -z "$rest" ] || run "$@" $rest || good=""
        ;;
    *) echo "no tolerance and no digest in ${file##*/}" >"$out/log" && good="" ;;
    esac
    if [ -n "$good" ]; then
        echo "ok - $name: wrong as it was"
    else
        sed 's/^/# /' "$out/log"
        echo "not ok - $name: wrong in another way"
    fi
done <"$out/list"
