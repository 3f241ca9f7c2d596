# Sourced by the samples' run.sh: their usage, which is a line of their comment, for --help and where the folder is missing.
usage()
{
    sed -n 's/^# \(usage: .*\)/\1/p' "$0"
}
case ${1:-} in
--help | -h) usage && exit 0 ;;
"" | -*) usage >&2 && exit 2 ;;
esac
