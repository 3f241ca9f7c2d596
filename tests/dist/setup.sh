# Sourced by tests/dist.tap and its like: running commands as ranks, a TAP line each. $engine: mpi (default; started by mpirun),
# ucx or sim (by launch.sh).
#   ranks N COMMAND...           N ranks, more than cores if need be, also as root (in containers)
#   machines N COMMAND...        twice N ranks on two machines, which are this one twice: by messages over TCP
#   dist NAME N COMMAND...       a case: they all exit with 0
#   need NAME N || skip it       is there an mpirun, or UCX's library? if not, the case is counted as skipped
#   result NAME STATUS           a case that the script decides itself; $tmp/log is shown where it failed
: "${engine:=mpi}"
TCCC_COMM=$engine
export TCCC_COMM
OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
OMPI_MCA_btl_vader_single_copy_mechanism=${OMPI_MCA_btl_vader_single_copy_mechanism-none} # not allowed in some containers
export OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM OMPI_MCA_btl_vader_single_copy_mechanism
cases=0
mpirun=$(command -v mpirun.openmpi || command -v mpirun || :) # Debian's name where MPICH is installed too
launcher=$mpirun missing="mpirun: install openmpi-bin"
if [ $engine = ucx ]; then
    launcher=$(ldconfig -p 2>/dev/null || /sbin/ldconfig -p 2>/dev/null)
    launcher=$(echo "$launcher" | sed -n 's/.*libucp\.so\.0 .*=> //p') missing="libucp.so.0: install libucx0"
elif [ $engine = sim ]; then
    launcher=launch.sh
fi

ranks() {
    count=$1
    shift
    if [ $engine != mpi ]; then
        timeout -k 10 120 "$top_srcdir/tests/dist/launch.sh" "$count" "$@"
        return
    fi
    timeout -k 10 120 "$mpirun" --oversubscribe -np "$count" "$@"
}

machines() {
    count=$1
    shift
    if [ $engine = ucx ]; then
        timeout -k 10 120 "$top_srcdir/tests/dist/launch.sh" -m 2 $((2 * count)) "$@"
        return
    fi
    AGENT_FOLDER=$tmp timeout -k 10 120 "$mpirun" --mca btl tcp,self --mca plm_rsh_agent "$top_srcdir/tests/dist/agent.sh" \
        --host "n1:$count,n2:$count" -np $((2 * count)) "$@"
}

need() {
    [ -n "$launcher" ] && return
    cases=$((cases + 1))
    echo "ok $cases - $1, $2 ranks # SKIP no $missing"
    return 1
}

result() {
    cases=$((cases + 1))
    if [ "$2" -eq 0 ]; then
        echo "ok $cases - $1"
    else
        tail -n 30 "$tmp/log" 2>/dev/null | sed 's/^/# /'
        echo "not ok $cases - $1"
    fi
}

dist() {
    name=$1 count=$2
    shift 2
    need "$name" "$count" || return
    ranks "$count" "$@" >"$tmp/log" 2>&1 </dev/null
    result "$name, $count ranks" $?
}

dist_end() {
    echo "1..$cases"
}
