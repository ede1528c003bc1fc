// Package arrows tests the import graph: a table lists the packages that each package of this module may import.
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

// house lists the packages from the lowest layer up, and what each may import: only packages above it in this list,
// so that there are no cycles and no imports of higher layers. onnx and onnx/grad do not depend on scorers.
const house = `
client:
internal/blocks:
internal/filelock:
internal/atomicfile: internal/filelock
internal/jsonfile: internal/atomicfile
internal/modelcard: internal/atomicfile
internal/remote: internal/atomicfile
internal/remote/s3test:
internal/exit:
internal/workers:
internal/process:
internal/graceful:
internal/shards: internal/atomicfile internal/exit internal/process internal/remote internal/workers
internal/version:
internal/hub: internal/atomicfile internal/exit internal/filelock internal/version
internal/hub/hubtest:
internal/signals:
internal/fuzzing:
internal/ptrace:
internal/outside: internal/ptrace
internal/long:
internal/journal: internal/exit internal/filelock
internal/library:
internal/codecs: internal/library
internal/lzw:
internal/jpegscan:
internal/testfile:
internal/packed:
internal/page:
internal/pystring:
internal/stats:
internal/strictjson:
internal/strictyaml:
internal/tokens:
internal/mpi: internal/process
onnx/onnxpb:
onnx: onnx/onnxpb
internal/kernels: onnx
onnx/grad: onnx
losses: onnx
ort: onnx internal/library internal/workers
internal/calibration: internal/jsonfile
checkpoints: onnx internal/atomicfile internal/workers internal/jsonfile internal/blocks
internal/graphfiles: checkpoints internal/atomicfile onnx
internal/quant: onnx checkpoints internal/strictjson internal/workers internal/atomicfile internal/exit
lora: onnx checkpoints internal/quant internal/atomicfile internal/workers internal/exit
data/parquet: onnx internal/remote
data: onnx data/parquet internal/atomicfile internal/codecs internal/remote internal/workers
data: internal/jpegscan internal/lzw
edit: data
onnx/gradjob: onnx onnx/grad ort checkpoints internal/atomicfile internal/exit internal/blocks
internal/oracle: checkpoints internal/packed
internal/store: data internal/remote internal/blocks
internal/table: data edit internal/store internal/shards internal/exit internal/journal internal/remote
internal/table: internal/workers
internal/cli: internal/atomicfile internal/exit internal/signals internal/version internal/remote internal/shards
internal/cli: internal/table internal/hub
internal/grammar: internal/strictjson
chat: data internal/grammar internal/store internal/strictjson internal/strictyaml internal/workers
chat/table: chat data internal/atomicfile internal/exit internal/strictjson internal/table
internal/captions: chat chat/table data edit internal/atomicfile internal/exit internal/strictyaml
internal/captions: internal/table internal/hub ort
heuristics: internal/stats
data/readers: onnx data heuristics internal/atomicfile
model/text: internal/strictjson internal/tokens
model/nn: onnx onnx/grad checkpoints lora internal/quant internal/strictjson
model/backbone: model/nn onnx checkpoints data lora internal/quant internal/store internal/strictjson internal/workers
model/batch: model/backbone model/nn model/text edit
model/exec: model/backbone model/batch model/nn model/text onnx ort checkpoints data lora internal/store
model/exec: internal/workers
model/language: model/backbone model/batch model/exec model/nn model/text onnx ort data edit lora internal/store
model/digests: checkpoints internal/exit internal/store internal/workers
model: internal/graphfiles internal/hub model/digests
model: model/backbone model/batch model/exec model/nn model/text onnx losses ort internal/calibration
model: checkpoints lora data internal/store edit internal/workers internal/atomicfile internal/jsonfile internal/exit
model/llavanext: onnx checkpoints data model/backbone model/nn internal/strictjson
model/qwenvl: onnx checkpoints data model/backbone model/nn internal/strictjson
model/qwen2vl: checkpoints model/backbone model/nn model/qwenvl internal/strictjson
model/qwen25vl: onnx checkpoints model/backbone model/nn model/qwenvl internal/strictjson data
model/qwen3vl: onnx checkpoints model/backbone model/nn model/qwenvl internal/strictjson
model/families: model/llavanext model/qwen2vl model/qwen25vl model/qwen3vl
model/quantize: onnx checkpoints internal/quant model/nn model/backbone internal/atomicfile internal/exit
model/quantize: internal/filelock internal/jsonfile
textjudge: chat data edit internal/grammar internal/store model/text internal/pystring internal/strictyaml
textjudge: internal/exit internal/stats internal/shards internal/workers chat/table internal/table
model/fresh: checkpoints model/backbone model/nn model/families internal/atomicfile internal/jsonfile
internal/generate: chat data internal/grammar model/exec model/language model/text internal/strictjson internal/workers
encoders: internal/shards onnx ort checkpoints data internal/store heuristics model/backbone model/nn
encoders: internal/strictjson internal/workers internal/atomicfile internal/remote internal/tokens internal/table edit
metrics: onnx ort checkpoints data edit encoders heuristics internal/store internal/strictyaml internal/atomicfile
metrics: internal/workers
t2i: checkpoints data edit encoders metrics model/backbone model/nn onnx ort internal/atomicfile internal/exit
t2i: internal/store internal/calibration internal/modelcard internal/strictjson internal/strictyaml internal/tokens
t2i: internal/workers
internal/optim: internal/workers
internal/trainer/events: internal/journal
internal/trainer/mlflow/mlflowtest:
internal/trainer/mlflow: internal/jsonfile internal/trainer/events internal/version
internal/trainer/config: data edit internal/exit internal/remote internal/strictyaml lora losses model internal/optim
internal/trainer/config: ort internal/store internal/hub
internal/trainer/dataset: chat chat/table data edit internal/exit internal/jsonfile internal/remote
internal/trainer/dataset: internal/workers losses internal/store internal/trainer/config
internal/trainer/rewards: data edit textjudge internal/trainer/config internal/trainer/dataset
internal/trainer/head: losses model internal/optim internal/store internal/trainer/dataset
internal/trainer/records: internal/atomicfile internal/stats
internal/trainer/records: internal/journal internal/trainer/config internal/trainer/dataset internal/trainer/events
internal/trainer/objective: data internal/exit losses internal/trainer/config internal/trainer/dataset
internal/trainer/objective: internal/trainer/records
internal/trainer/report: data edit internal/atomicfile internal/page internal/stats internal/trainer/config
internal/trainer/report: internal/trainer/records
internal/trainer/checkpoint: checkpoints data internal/atomicfile internal/exit internal/filelock onnx internal/optim
internal/trainer/checkpoint: internal/trainer/config internal/trainer/dataset internal/trainer/records
internal/trainer/optimizer: checkpoints internal/exit internal/workers internal/optim internal/trainer/checkpoint
internal/trainer/optimizer: internal/trainer/config internal/trainer/records
internal/trainer/models: checkpoints data edit internal/exit internal/workers lora losses model model/text
internal/trainer/models: chat internal/generate internal/trainer/rewards model/batch onnx
internal/trainer/models: internal/optim ort internal/store internal/trainer/checkpoint internal/trainer/config
internal/trainer/models: internal/trainer/dataset internal/trainer/head internal/trainer/objective
internal/trainer/models: internal/trainer/optimizer model/backbone model/exec model/language model/nn
internal/trainer: data edit internal/atomicfile internal/exit internal/hub internal/jsonfile internal/stats
internal/trainer: internal/version
internal/trainer: internal/workers losses internal/optim internal/store internal/trainer/checkpoint
internal/trainer: internal/trainer/config internal/trainer/dataset internal/trainer/models internal/trainer/objective
internal/trainer: internal/trainer/mlflow internal/trainer/optimizer internal/trainer/records internal/trainer/report
internal/trainer/distributed: internal/exit internal/optim internal/trainer/checkpoint internal/trainer/config
internal/trainer/distributed: internal/trainer/models internal/trainer/optimizer
internal/doctor/trial: onnx data edit lora model model/fresh internal/optim
internal/doctor: data internal/doctor/trial ort model model/backbone model/exec model/fresh internal/optim
internal/doctor: internal/version
released: checkpoints edit model model/backbone internal/store internal/atomicfile internal/exit internal/pystring
released: internal/modelcard
internal/modeltest: internal/kernels onnx ort checkpoints lora data edit model model/backbone model/batch model/nn
internal/modeltest: internal/optim internal/oracle internal/packed internal/long internal/testfile model/text
internal/scoring: data edit internal/store internal/shards internal/table internal/atomicfile internal/exit
internal/scoring: internal/remote
internal/distil: chat data edit internal/atomicfile internal/exit internal/hub internal/jsonfile internal/remote
internal/distil: internal/scoring internal/stats internal/store internal/strictyaml internal/table internal/trainer
internal/distil: internal/trainer/config internal/trainer/models model textjudge
internal/scoring/calibrate: internal/calibration data edit t2i model internal/scoring internal/store internal/atomicfile
internal/scoring/calibrate: internal/exit internal/page internal/stats internal/jsonfile
internal/benchmarks/protocol: data edit internal/store internal/table internal/stats
internal/benchmarks/adiee: internal/benchmarks/protocol edit internal/stats
internal/benchmarks/aimbench: internal/benchmarks/protocol edit internal/jsonfile internal/stats
internal/benchmarks/editors: internal/benchmarks/protocol internal/pystring edit
internal/benchmarks/fedbench: internal/benchmarks/protocol edit internal/stats
internal/benchmarks/mvei: internal/benchmarks/protocol edit internal/jsonfile internal/stats
internal/benchmarks/rewardbench: internal/benchmarks/protocol edit internal/stats
internal/benchmarks/registry: internal/benchmarks/protocol internal/benchmarks/adiee internal/benchmarks/aimbench
internal/benchmarks/registry: internal/benchmarks/editors internal/benchmarks/fedbench internal/benchmarks/mvei
internal/benchmarks/registry: internal/benchmarks/rewardbench
internal/benchmarks/runner: internal/benchmarks/protocol edit encoders model internal/shards internal/store
internal/benchmarks/runner: internal/table textjudge internal/atomicfile internal/exit internal/journal
internal/benchmarks/runner: internal/jsonfile internal/stats t2i
internal/benchmarks/report: internal/benchmarks/protocol internal/benchmarks/runner data internal/atomicfile
internal/view: data edit internal/exit internal/page internal/table
internal/benchmarks/report: internal/page internal/stats
internal/benchmarks/benchtest: internal/benchmarks/protocol data internal/testfile
internal/labeling/nearcopy: data internal/workers
internal/labeling/guard: data internal/workers internal/labeling/nearcopy
internal/labeling: internal/exit internal/tokens
internal/labeling: internal/labeling/nearcopy internal/labeling/guard internal/remote data internal/store heuristics
internal/labeling: data/readers encoders internal/strictyaml internal/workers internal/table internal/shards
internal/labeling: internal/atomicfile internal/filelock internal/hub internal/page ort
internal/curate: data edit heuristics internal/scoring internal/atomicfile internal/jsonfile internal/stats
internal/curate: internal/exit internal/remote
internal/reward/combine: internal/stats
internal/reward/conn:
internal/reward/gate:
internal/reward/once:
internal/reward/pace:
internal/reward/pictures: data
internal/reward: chat data edit model checkpoints internal/atomicfile internal/strictyaml internal/strictjson
internal/reward: internal/workers internal/graceful internal/version ort internal/reward/combine internal/reward/gate
internal/reward: internal/reward/conn internal/reward/once internal/reward/pictures
internal/reward: internal/reward/pace
internal/trainer/bybenchmark: edit internal/store internal/benchmarks/protocol internal/benchmarks/registry
internal/trainer/bybenchmark: internal/benchmarks/runner internal/trainer internal/trainer/config
.: chat data edit internal/generate internal/labeling model model/families ort internal/table textjudge
.: internal/trainer internal/trainer/bybenchmark internal/trainer/config internal/trainer/dataset
.: internal/trainer/models internal/workers internal/hub t2i
`

// Commands and tools are at the top: they may import anything, and no other package imports them.
func onTop(pkg string) bool {
	return strings.HasPrefix(pkg, "cmd/") || strings.HasPrefix(pkg, "internal/cli/") || strings.HasPrefix(pkg, "tools/")
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

// ownModule reports whether a folder is a module of its own that only uses this one, such as an example.
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
				t.Errorf("%s: got %s, want packages above it in the table", pkg, to)
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
				t.Errorf("%s: got an import of %s, want none of lab: lab imports this module", path.Join(pkg, d.Name()), to)
			}
			if ours && !onTop(pkg) && !slices.Contains(may[pkg], to) {
				t.Errorf("%s: got an import of %s by %s, want only imports in the table; if it is intended, add it there",
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
			t.Errorf("table: got %s, want only existing packages", pkg)
		}
	}
}
