# Sourced by tests/dist.tap: running commands as ranks, a TAP line each.
#   ranks N COMMAND...           N ranks, more than cores if need be, also as root (in containers)
#   dist NAME N COMMAND...       a case: they all exit with 0
#   ok NAME, not_ok NAME         a case that the script decides itself
# Without mpirun every case is skipped, and counted.
OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
OMPI_MCA_btl_vader_single_copy_mechanism=${OMPI_MCA_btl_vader_single_copy_mechanism-none} # not allowed in some containers
export OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM OMPI_MCA_btl_vader_single_copy_mechanism
cases=0
mpirun=$(command -v mpirun || :)

ranks() {
    count=$1
    shift
    timeout 120 "$mpirun" --oversubscribe -np "$count" "$@"
}

ok() {
    cases=$((cases + 1))
    echo "ok $cases - $1"
}

not_ok() {
    cases=$((cases + 1))
    sed 's/^/# /' "$tmp/log" 2>/dev/null | tail -n 30
    echo "not ok $cases - $1"
}

dist() {
    name=$1 count=$2
    shift 2
    if [ -z "$mpirun" ]; then
        cases=$((cases + 1))
        echo "ok $cases - $name, $count ranks # SKIP no mpirun: install openmpi-bin"
    elif ranks "$count" "$@" >"$tmp/log" 2>&1 </dev/null; then
        ok "$name, $count ranks"
    else
        not_ok "$name, $count ranks"
    fi
}

dist_end() {
    echo "1..$cases"
}
