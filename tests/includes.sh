# The doors between folders: no source file includes what its folder may not (DESIGN: folders and doors). Prints the
# files that have grown past 800 lines, for information.
. "${top_srcdir:=$(cd "$(dirname "$0")/.." && pwd)}/tests/setup.sh"
cd "$top_srcdir" || fail "no source tree"

find base runtime sim ir passes compiler tools -name '*.[ch]' -o -name '*.def' | sort >"$tmp/files"
[ -s "$tmp/files" ] || fail "no sources found"
xargs awk '
    BEGIN { split("base runtime sim ir passes compiler tools", order); for (i in order) rank[order[i]] = i
            door["runtime/abi.h"] = door["runtime/plan.def"] = door["runtime/tensor_map.h"] = door["runtime/trees.h"] = door["runtime/tccc_custom.h"] = door["runtime/tccdata.h"] = door["base/safe.h"] = door["base/index.h"] = door["base/mutant.h"] = door["runtime/tccrt.h"] = door["ir/ir.h"] = door["passes/pass.h"] = 1
            door["compiler/tccc.h"] = door["compiler/trace.h"] = door["compiler/target.h"] = 1; door["compiler/import/frontend.h"] = door["compiler/fields.h"] = 1
            door["passes/train/train.h"] = door["passes/grad/grad.h"] = 1 # the transformation to training steps
            door["sim/time.h"] = door["sim/link.h"] = 1 # machines, which tccc-plan describes
            door["sim/ptx/ptxsim.h"] = 1 # a product of its own; tools run it
            door["runtime/neuron_isa.h"] = 1 # the format of NeuronCore programs
            door["sim/neuron/neuronsim.h"] = 1
             door["ir/map.h"] = 1; door["ir/winograd.h"] = 1 # the forms of one op
             door["base/wire.h"] = door["base/draw.h"] = door["base/format.h"] = door["base/grow.h"] = door["base/env.h"] = door["base/numbers.h"] = door["base/xxh3.h"] = door["base/checkpoint.h"] = 1
            # Folders of passes/ and runtime/: which may include which. What lies directly in passes/ or runtime/ is open to all of them.
            split("train>grad parallel>train parallel>grad cluster>parallel cluster>train comm>libop data>libop", list, " ")
            for (i in list) edge[list[i]] = 1
            # Targets share compiler/emit and write images (compiler/artifact), and none includes another.
            split("cpu cuda emit neuron", list, " ")
            for (i in list) target[list[i]] = 1
            # Front ends stand on compiler/import, and none on another.
            reader["onnx"] = reader["pt2"] = reader["trace"] = reader["import"] = 1
            # From above: the door of passes, the walker, which starts collectives, and the runtime, which opens devices.
            above["passes/pass.h"] = above["runtime/walk.c"] = above["runtime/rt_int.h"] = 1 }
    FNR == 1 { inner = split(FILENAME, part, "/") > 2 ? part[2] : ""; from = part[1] }
    /^[ \t]*#[ \t]*include[ \t]*"/ {
        split($0, quoted, "\""); inc = quoted[2]; n = split(inc, b, "/"); to = b[1]; why = ""
        # The public files may stand in any folder of a product, so the one names the other as its neighbour.
        if (FILENAME " " inc == "runtime/tccrt.h abi.h" || FILENAME " " inc == "runtime/tccdata.h tccrt.h" || FILENAME " " inc == "runtime/abi.h plan.def") why = ""
        else if (n == 1 || inc ~ /\.\.?\//) why = "is not written from the root"
        else if (inc ~ /\.def$/ && FILENAME == "tools/mkdoc.c") why = "" # documents are made of tables
        else if (!(to in rank)) why = "is not in a folder of the project"
        else if (to == from) {
            if (to == "compiler" && (inner in target) && n > 2 && b[2] != inner && b[2] != "emit" && b[2] != "artifact") why = "is not a folder that a target may include"
            if (to == "compiler" && n > 2 && (inner in reader) && (b[2] in reader) && b[2] != inner && b[2] != "import") why = "is another front end\47s"
            other = n > 2 && (to == "passes" || to == "runtime") ? b[2] : inner
            if (to == "sim" && n > 2 && b[2] != inner) why = "is another simulator\47s"
            else if (other != inner && !((inner ">" other) in edge) && !(FILENAME in above)) why = "is not a folder that this one may include"
        }
        else if (from == "sim" && inc !~ /^runtime\/neuron_isa\.(h|def)$/) why = "is not in the simulator, which shares no code"
        else if (FILENAME ~ /^runtime\/device\/neuron\// && inc == "sim/neuron/neuronsim.h") why = "" # its library
        else if (rank[to] > rank[from]) why = "goes up"
        else if (to == "sim" && from != "tools") why = "is for tools/ only"
        else if (inc ~ /\.def$/) why = ""
        else if (!(inc in door)) why = "is not a door"
        else if (inc == "runtime/tccrt.h" && from != "tools" && FILENAME !~ /^compiler\/trace\//)
            why = "is for tools/ and compiler/trace/ only"
        if (why != "") { print FILENAME ":" FNR ": " inc " " why; bad = 1 }
    }
    END { exit bad }' <"$tmp/files" || fail "includes across doors"
xargs wc -l <"$tmp/files" | awk '$2 != "total" && $1 > 800 { print "note: " $1 " lines: " $2 }'
exit 0
