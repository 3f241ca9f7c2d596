#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# In place of ssh for mpirun (--mca plm_rsh_agent): a machine of any name is this one, with temporary files of its own. So tests have
# several machines. agent.sh [OPTION]... NAME COMMAND...
while [ "${1#-}" != "$1" ]; do
    shift
done
TMPDIR=${AGENT_FOLDER:?}/$1
export TMPDIR
mkdir -p "$TMPDIR"
shift
exec sh -c "$*"
