// Package arrows holds the table of who may import whom.
package arrows

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// house lists the packages from the ground up, and what each may import: only what stands above it in the list, so that
// no arrow points up. onnx and onnx/grad know nothing of scorers.
const house = `
internal/blocks:
internal/filelock:
internal/atomicfile: internal/filelock
internal/jsonfile: internal/atomicfile
internal/remote: internal/atomicfile
internal/remote/s3test:
internal/exit:
internal/workers:
internal/process:
internal/graceful:
shards: internal/atomicfile internal/exit internal/process internal/remote internal/workers
internal/version:
internal/signals:
internal/fuzzing:
internal/ptrace:
internal/outside: internal/ptrace
internal/long:
internal/journal: internal/filelock
internal/testfile:
internal/packed:
internal/page:
internal/pystring:
internal/stats:
internal/strictjson:
internal/strictyaml:
internal/tokens:
mpi: internal/process
onnx/onnxpb:
onnx:             onnx/onnxpb
internal/kernels: onnx
onnx/grad:        onnx
losses:           onnx
ort:              onnx internal/workers
calibration:      internal/jsonfile
checkpoints:      onnx internal/atomicfile internal/workers internal/jsonfile internal/blocks
quant:            onnx checkpoints internal/strictjson internal/workers internal/atomicfile internal/exit
lora:             onnx checkpoints quant internal/atomicfile internal/workers internal/exit
data/parquet:     onnx internal/remote
data:             onnx data/parquet internal/atomicfile internal/remote internal/workers
edit:             data
onnx/gradjob:     onnx onnx/grad ort checkpoints internal/atomicfile internal/exit internal/blocks
internal/oracle:  checkpoints internal/packed
store:           data internal/remote internal/blocks
table:           data store shards internal/exit internal/journal internal/remote internal/workers
internal/cli: internal/atomicfile internal/exit internal/signals internal/version internal/remote shards table
grammar:         internal/strictjson
chat:            data grammar store internal/strictjson internal/strictyaml internal/workers
chat/table:       chat data internal/atomicfile internal/exit internal/strictjson table
captions:         chat chat/table data edit internal/atomicfile internal/exit internal/strictyaml table
heuristics:       internal/stats
data/readers:     onnx data heuristics internal/atomicfile
model/text:       internal/strictjson internal/tokens
model:            onnx onnx/grad losses ort calibration checkpoints lora data store model/text internal/strictjson
model:            edit internal/workers internal/atomicfile quant internal/jsonfile internal/exit
model/llavanext: onnx checkpoints data model internal/strictjson
model/qwenvl:    onnx checkpoints data model internal/strictjson
model/qwen2vl:   checkpoints model model/qwenvl internal/strictjson
model/qwen25vl:  onnx checkpoints model model/qwenvl internal/strictjson data
model/qwen3vl:   onnx checkpoints model model/qwenvl internal/strictjson
model/families:  model/llavanext model/qwen2vl model/qwen25vl model/qwen3vl
model/quantize:  onnx checkpoints quant model internal/atomicfile internal/exit internal/filelock internal/jsonfile
textjudge:        chat data edit grammar store model/text internal/pystring internal/strictyaml internal/exit shards
textjudge:        internal/workers chat/table table
model/fresh:      checkpoints model model/families internal/atomicfile internal/jsonfile
generate:        chat data grammar model model/text internal/strictjson internal/workers
encoders:         shards onnx ort checkpoints data store heuristics model internal/strictjson internal/workers
encoders:         internal/atomicfile internal/remote internal/tokens table edit
optim:            internal/workers
trainer/events:   internal/journal
trainer:          edit internal/remote onnx losses ort chat chat/table checkpoints lora data store model model/text
trainer:          trainer/events optim internal/stats internal/strictyaml internal/workers internal/atomicfile
trainer:          internal/exit internal/version internal/journal internal/filelock internal/jsonfile
doctor/trial:    onnx data edit lora model model/fresh optim
doctor:          doctor/trial ort model model/fresh optim internal/version
released:         checkpoints edit model store internal/atomicfile internal/exit internal/pystring
internal/modeltest: edit onnx ort checkpoints lora data model optim internal/oracle internal/packed internal/long
metrics:         onnx ort checkpoints data edit encoders heuristics store internal/strictyaml internal/atomicfile
metrics:         internal/workers
scoring:         data edit store shards table internal/atomicfile internal/exit internal/remote
scoring/calibrate: calibration data model scoring store internal/atomicfile internal/exit internal/page internal/stats
scoring/calibrate: internal/jsonfile
benchmarks/protocol: data edit store table internal/stats
benchmarks/adiee: benchmarks/protocol edit internal/stats
benchmarks/aimbench: benchmarks/protocol edit internal/jsonfile internal/stats
benchmarks/editors: benchmarks/protocol edit
benchmarks/fedbench: benchmarks/protocol edit internal/stats
benchmarks/mvei: benchmarks/protocol edit internal/jsonfile
benchmarks/rewardbench: benchmarks/protocol edit internal/stats
benchmarks/registry: benchmarks/protocol benchmarks/adiee benchmarks/aimbench benchmarks/editors benchmarks/fedbench
benchmarks/registry: benchmarks/mvei benchmarks/rewardbench
benchmarks/runner: benchmarks/protocol edit encoders model shards store table textjudge
benchmarks/runner: internal/atomicfile internal/exit internal/journal internal/jsonfile internal/stats
benchmarks/report: benchmarks/protocol benchmarks/runner data internal/atomicfile internal/page internal/stats
benchmarks/benchtest: benchmarks/protocol data internal/testfile
labeling/nearcopy: data internal/workers
labeling/guard:    data internal/workers labeling/nearcopy
labeling:         labeling/nearcopy labeling/guard internal/remote data store heuristics data/readers
labeling:         encoders internal/strictyaml internal/workers table shards
labeling:         internal/atomicfile internal/filelock
curate: data edit heuristics scoring internal/atomicfile internal/jsonfile internal/stats internal/exit internal/remote
reward: chat data edit model checkpoints internal/atomicfile internal/strictyaml internal/strictjson
reward: internal/workers internal/graceful
trainer/bybenchmark: edit store model benchmarks/protocol benchmarks/registry benchmarks/runner trainer
.:                data edit ort model model/families trainer trainer/bybenchmark labeling table
.:                internal/workers
`

// Commands and tools stand on top, may import anything, and are imported by nobody.
func onTop(pkg string) bool {
	return strings.HasPrefix(pkg, "cmd/") || strings.HasPrefix(pkg, "tools/")
}

// modulePath reads the first line of go.mod.
func modulePath(t *testing.T, root string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	line, _, _ := strings.Cut(string(raw), "\n")
	return strings.TrimPrefix(line, "module ")
}

// ownModule tells folders that only use this module: examples.
func ownModule(folder string) bool {
	_, err := os.Stat(filepath.Join(folder, "go.mod"))
	return err == nil
}

func TestArrowsPointDown(t *testing.T) {
	may := map[string][]string{}
	for line := range strings.Lines(strings.TrimSpace(house)) {
		pkg, list, _ := strings.Cut(strings.TrimSpace(line), ":")
		for _, to := range strings.Fields(list) {
			if _, known := may[to]; !known {
				t.Errorf("%s: got %s, want packages that stand above it in the table", pkg, to)
			}
		}
		may[pkg] = append(may[pkg], strings.Fields(list)...) // long lists take several lines
	}
	seen := map[string]bool{}
	root := filepath.Join("..", "..")
	module := modulePath(t, root)
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && file != root && ownModule(file) {
			return filepath.SkipDir
		}
		if d.IsDir() && file != root && (d.Name() == "build" || d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".")) {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			return nil
		}
		inside, err := filepath.Rel(root, filepath.Dir(file))
		if err != nil {
			return err
		}
		pkg := filepath.ToSlash(inside)
		seen[pkg] = true
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, s := range parsed.Imports {
			name, _ := strconv.Unquote(s.Path.Value)
			to, ours := strings.CutPrefix(name, module+"/")
			if name == module {
				to, ours = ".", true
			}
			if ours && strings.HasPrefix(to, "lab/") {
				t.Errorf("%s: got an import of %s, want none of lab's: lab imports this module", path.Join(pkg, d.Name()), to)
			}
			if ours && !onTop(pkg) && !slices.Contains(may[pkg], to) {
				t.Errorf("%s: got an import of %s by %s, want those of the table; if it should be there, say so in it",
					path.Join(pkg, d.Name()), to, pkg)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for pkg := range seen {
		if _, known := may[pkg]; !known && !onTop(pkg) {
			t.Errorf("package %s: got no line in the table, want one", pkg)
		}
	}
	for pkg := range may {
		if !seen[pkg] {
			t.Errorf("table: got %s, want packages that are there", pkg)
		}
	}
}
