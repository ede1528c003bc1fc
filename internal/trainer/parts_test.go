package trainer

import (
	"context"
	"encoding/json"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"assay/checkpoints"
	"assay/internal/exit"
	"assay/internal/long"
	"assay/internal/oracle"
	"assay/internal/testfile"
	"assay/internal/trainer/config"
	"assay/internal/trainer/models"
	"assay/internal/trainer/records"
	"assay/lora"
)

// TestTrainSection trains the parts in train: only their tensors change, and config.yaml records them.
func TestTrainSection(t *testing.T) {
	long.Test(t)
	root := oracle.Folders(t)[0]
	for _, test := range []struct {
		extra    string
		words    string   // of trained tensors
		changed  []string // of the backbone, by path; one ending stands for all of a folder
		adapters int
	}{
		{
			"train: {projector: full}\n", "6 adapters in the language model, 0 in vision, 0 in the projector; 0 tensors in " +
				"the language model, 0 in vision, 4 in the projector; head; 2 token rows",
			[]string{"model.multi_modal_projector."}, 6,
		},
		{
			"train: {last: 1, rows: [embedding]}\n",
			"2 adapters in the language model, 0 in vision, 0 in the projector; head; 1 token rows", nil, 2,
		},
		{
			"train: {language: full, last: 1, rows: []}\n",
			"9 tensors in the language model, 0 in vision, 0 in the projector; head; 0 token rows",
			[]string{"model.language_model.layers.2."}, 0,
		},
		{
			"train: {language: frozen}\n",
			"0 adapters in the language model, 0 in vision, 0 in the projector; head; 2 token rows", nil, 0,
		},
		{
			"train: {vision: full, language: lora}\nlora: {targets: all-linear}\n",
			"in vision, 0 in the projector; head; 2 token rows", []string{"model.vision_tower."}, 21,
		},
	} {
		path := pictureRun(t, "llavanext", "seed: 3\n"+test.extra)
		r, err := plainTrain(path, Options{})
		if err != nil {
			t.Errorf("%s: %v", test.extra, err)
			continue
		}
		if !strings.Contains(r.Trains.String(), test.words) {
			t.Errorf("%s: it trains %v", test.extra, r.Trains)
		}
		again := load(t, filepath.Join(r.Run, config.ConfigFile))
		dry, err := DryRun(context.Background(), again, models.OpenPlan)
		if err != nil || dry.Trains.Digest != r.Trains.Digest {
			t.Errorf("%s: the dry run of config.yaml says %v, %v", test.extra, dry, err)
		}
		a, err := lora.Load(r.Scorer)
		if test.adapters > 0 && (err != nil || len(a.Targets) != test.adapters) || test.adapters == 0 && err == nil {
			t.Errorf("%s: the scorer's adapter: %v", test.extra, err)
			if a != nil {
				t.Errorf("it has %d layers, want %d", len(a.Targets), test.adapters)
			}
		}
		before := oracle.Tensors(t, filepath.Join(root, "llavanext", "backbone", "model.safetensors"))
		after := map[string][]float32{}
		if own, _, err := checkpoints.ReadFile(filepath.Join(r.Scorer, "backbone", "model.safetensors")); err == nil {
			for name, v := range own {
				after[lora.Canonical(name)] = v.Float32s()
			}
		}
		if a != nil {
			for _, p := range a.Whole {
				after[p] = a.Tensors[lora.NameParameter(p)].Float32s()
			}
		}
		moved := map[string]bool{}
		for name, v := range before {
			path := lora.Canonical(name)
			in := slices.ContainsFunc(test.changed, func(p string) bool { return strings.HasPrefix(path, p) })
			if now := after[path]; now != nil && !slices.Equal(now, v.Float32s()) {
				if moved[path] = true; !in {
					t.Errorf("%s: %s changed", test.extra, path)
				}
			}
		}
		if len(moved) == 0 != (len(test.changed) == 0) {
			t.Errorf("%s: %v changed, want those in %v", test.extra, slices.Sorted(maps.Keys(moved)), test.changed)
		}
		longer := strings.Replace(test.extra, "seed: 3", "seed: 4", 1) // resumes, and refuses a different plan
		if _, err := plainTrain(path, Options{}); err != nil {
			t.Errorf("%s: again: %v", longer, err)
		}
	}
	for extra, want := range map[string]string{
		"train: {language: half}\n":                              "want one of lora, full, frozen",
		"train: {language: full}\nmode: lora\n":                  "train implies mode full",
		"train: {vision: lora}\nlora: {parts: [language]}\n":     "train puts adapters on [language vision]",
		"train: {last: 9}\n":                                     "the language model has 3 layers, not 9",
		"train: {language: full, last: 9}\n":                     "the language model has 3 layers, not 9",
		"lora: {targets: [q_proj], modules_to_save: [q_proj]}\n": "modules_to_save [\"q_proj\"] collide",
		"lora: {rank_pattern: {o_proj: 3}}\n":                    "lora.rank_pattern: \"o_proj\" applies to no layer",
		"lora: {alpha_pattern: {o_proj: 3}}\n":                   "lora.alpha_pattern: \"o_proj\" applies to no layer",
		"lora: {targets: [q_proj, wqkv]}\n":                      "lora.targets: \"wqkv\" selects no layer",
		"lora: {layers: [0, 9]}\n":                               "lora.layers: targets select no layer with index 9",
		"lora: {layers: [9]}\n":                                  "lora.layers: targets select no layer with index 9",
		"lora: {modules_to_save: [lm_head, lm_heed]}\n": "" +
			"lora.modules_to_save: \"lm_heed\" names no module of the backbone",
		"train: {rows: [mine]}\n":                              "want one of embedding, lm_head",
		"train: {language: frozen, last: 1}\n":                 "the language model is frozen",
		"train: {projector: full}\nlora: {bias: all}\n":        "PEFT saves such biases twice",
		"lora: {dora: true, start: pissa}\n":                   "cannot be combined with lora.dora",
		"lora: {start: random}\n":                              "want one of pissa, olora",
		"device_options: {cudnn_search: all}\n":                "want one of exhaustive, heuristic, default",
		"optimizer: {groups: {vision: {lr: 1}}}\n":             "optimizer.groups.vision: no tensor in this group trains",
		"optimizer: {groups: {head: {ratio: 2}}}\n":            "only applies to adapters",
		"optimizer: {groups: {head: {schedule: {kind: x}}}}\n": "optimizer.groups.head.schedule.kind",
		"optimizer: {groups: {rows: {lr: -1}}}\n":              "optimizer.groups.rows.lr: want more than 0",
		"optimizer: {groups: {rows: {lr: 0}}}\n":               "optimizer.groups.rows.lr: want more than 0, not 0",
		"optimizer: {groups: {adapters: {ratio: 0}}}\n": "" +
			"optimizer.groups.adapters.ratio: want more than 0, not 0",
		"optimizer: {groups: {head: {schedule: {factor: 0}}}}\n": "" +
			"optimizer.groups.head.schedule.factor: want more than 0",
		"optimizer: {groups: {head: {schedule: {cycles: 0}}}}\n": "" +
			"optimizer.groups.head.schedule.cycles: want at least 1",
		"optimizer: {groups: {head: {schedule: {kind: plateau}}}}\n": "" +
			"groups.head.schedule.kind: plateau needs validation rows",
		"schedule: {kind: plateau, factor: 2}\n":                "schedule.factor: want more than 0 and below 1",
		"schedule: {kind: plateau}\n":                           ":6:12: schedule.kind: plateau needs validation rows",
		"lora: {modules_to_save: [nothing]}\n":                  "names no module of the backbone",
		"lora: {targets: [q_proj], modules_to_save: [_proj]}\n": "which also has an adapter",
	} {
		if _, err := plainTrain(
			pictureRun(t, "llavanext", extra),
			Options{},
		); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", extra, err, want)
		}
	}
}

// TestTowerTargets: if the default targets match nothing in a tower, the error lists its layers.
func TestTowerTargets(t *testing.T) {
	_, err := plainTrain(pictureRun(t, "qwen2_5_vl", "train: {language: full, vision: lora}\n"), Options{})
	if err == nil || !strings.Contains(err.Error(), "train puts adapters on [vision], whose linear layers are named ") ||
		!strings.Contains(err.Error(), " qkv") || strings.Contains(err.Error(), "add these parts") {
		t.Errorf("error %v", err)
	}
}

// TestOptimizerGroups: every group uses its own learning rate, and the plan and the metrics report it.
func TestOptimizerGroups(t *testing.T) {
	path := pictureRun(t, "llavanext", `
optimizer:
  lr: 1e-3
  groups:
    adapters: {lr: 2e-4, ratio: 16, weight_decay: 0.1}
    head: {lr: 5e-3, schedule: {kind: cosine, warmup: 1}}
schedule: {kind: linear}
`)
	if err := os.WriteFile(
		path,
		[]byte(strings.Replace(mustRead(t, path), "steps: 1", "steps: 3", 1)),
		0o666,
	); err != nil {
		t.Fatal(err)
	}
	said := ""
	r, err := plainTrain(path, Options{Note: func(s string) { said += s + "\n" }})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"adapters: 6 tensors, learning rate 0.0002, weight decay 0.1, schedule linear\n",
		"adapters.B: 6 tensors, learning rate 0.0032, weight decay 0.1, schedule linear\n",
		"head: 4 tensors, learning rate 0.005, weight decay 0, schedule cosine, warmup 1\n",
		"others: 2 tensors, learning rate 0.001, weight decay 0, schedule linear\n"} {
		if !strings.Contains(said, want) {
			t.Errorf("it said %q, want %q in it", said, want)
		}
	}
	text, err := os.ReadFile(filepath.Join(r.Run, records.MetricsFile))
	if err != nil {
		t.Fatal(err)
	}
	var m records.StepMetrics
	if err := json.Unmarshal([]byte(strings.Split(string(text), "\n")[1]), &m); err != nil {
		t.Fatal(err)
	}
	want := records.Rates{"adapters": 2e-4 * 2 / 3, "adapters.B": 16 * 2e-4 * 2 / 3, "head": 5e-3}
	for name, lr := range want {
		if !(math.Abs(m.LRs[name]-lr) <= 1e-12) {
			t.Errorf("%s: %g, want %g", name, m.LRs[name], lr)
		}
	}
	if len(r.Trains.Groups) != 4 || len(m.LRs) != 3 {
		t.Errorf("%+v, %v", r.Trains.Groups, m.LRs)
	}
	other := strings.Replace(mustRead(t, path), "ratio: 16", "ratio: 8", 1)
	if err := os.WriteFile(path, []byte(other), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := plainTrain(
		path,
		Options{},
	); err == nil ||
		!strings.Contains(err.Error(), "optimizer.groups.adapters.ratio") {
		t.Errorf("another ratio: %v", err)
	}
}

func mustRead(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestInitIsABareAdapter starts from an adapter saved by PEFT: the adapter trains further, with a new scorer around
// it.
func TestInitIsABareAdapter(t *testing.T) {
	root := oracle.Folders(t)[0]
	dir := t.TempDir()
	for _, name := range []string{lora.ConfigFile, lora.WeightsFile} {
		raw := mustRead(t, filepath.Join(root, "llavanext", "scorer", name))
		if err := os.WriteFile(filepath.Join(dir, name), []byte(raw), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	path := pictureRun(t, "llavanext", "init: "+dir+"\nbackbone: "+filepath.Join(root, "llavanext", "backbone")+
		"\nhead: {hidden: [8]}\noptimizer: {lr: 1e-30}\n")
	r, err := plainTrain(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	was, err := lora.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	is, err := lora.Load(r.Scorer)
	if err != nil {
		t.Fatal(err)
	}
	for name, v := range was.Tensors {
		if !slices.Equal(v.Float32s(), is.Tensors[name].Float32s()) {
			t.Errorf("%s has changed", name)
		}
	}
	if _, err := plainTrain(path, Options{}); err != nil {
		t.Errorf("again: %v", err)
	}
	other := strings.Replace(mustRead(t, path), "init:", "lora: {r: 3}\ninit:", 1)
	if err := os.WriteFile(path, []byte(other), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := plainTrain(path, Options{}); err == nil || !strings.Contains(err.Error(), "the lora section asks for") {
		t.Errorf("another rank: %v", err)
	}
}

// TestUnusedExclude: what lora.exclude names and the backbone lacks is warned of, in the dry run as well. A run without
// adapters says nothing.
func TestUnusedExclude(t *testing.T) {
	for extra, want := range map[string][]string{
		"lora: {exclude: [o_proj, o_porj, lm_head]}\n": {"" +
			`lora.exclude: ["o_porj"] matches no module of the backbone`},
		"lora: {targets: all-linear, exclude: 'q_proj'}\n": {"" +
			`lora.exclude: "q_proj" matches no module of the backbone`},
		"lora: {targets: all-linear, exclude: '.*\\.q_proj'}\n": nil,
		"mode: full\n": nil,
	} {
		path := pictureRun(t, "llavanext", extra)
		var got []string
		if _, err := plainTrain(path, Options{Warn: func(text string) {
			if strings.HasPrefix(text, "lora.") {
				got = append(got, text)
			}
		}}); err != nil {
			t.Fatal(err)
		}
		plan, err := DryRun(context.Background(), load(t, path), models.OpenPlanFor(0))
		if err != nil {
			t.Fatal(err)
		}
		planned := slices.DeleteFunc(plan.Warnings, func(text string) bool { return !strings.HasPrefix(text, "lora.") })
		if !slices.Equal(got, want) || !slices.Equal(planned, want) {
			t.Errorf("%s: got %q, planned %q, want %q", extra, got, planned, want)
		}
	}
}

// TestForeignFolder: a new run neither removes nor overwrites what no run wrote, with --fresh as well.
func TestForeignFolder(t *testing.T) {
	for _, name := range []string{"best/mine", "checkpoints/tiny/model.safetensors", "adapter/mine", "backbone/mine",
		"scorer/mine", "metrics.jsonl", "rows.jsonl", "bad-rows.jsonl", "validation.jsonl", "config.yaml", "mlflow.json",
		"wandb.json", ".lock"} {
		path := writeRun(t, 30, "epochs: 1\n")
		mine := filepath.Join(filepath.Dir(path), "out", name)
		if err := os.MkdirAll(filepath.Dir(mine), 0o777); err != nil {
			t.Fatal(err)
		}
		for _, file := range []string{mine, filepath.Join(filepath.Dir(path), "out", ".mine.tmp")} {
			if err := os.WriteFile(file, []byte("mine"), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		first, _, _ := strings.Cut(name, "/")
		refusal := "has " + first + ", which a run would replace, but no plan.json of a run: use another out"
		if name == ".lock" {
			refusal = ".lock is not the lock of a run, which would replace it: use another out"
		}
		for _, fresh := range []bool{false, true} {
			_, err := Train(context.Background(), Options{Config: load(t, path), Factory: newFake().factory, Fresh: fresh})
			if err == nil || exit.Code(err) != exit.Wrong || !strings.Contains(err.Error(), refusal) {
				t.Errorf("%s, fresh %v: got %v, want %q", name, fresh, err, refusal)
			}
		}
		if text, err := os.ReadFile(mine); err != nil || string(text) != "mine" {
			t.Errorf("%s: got %q, %v, want it unchanged", name, text, err)
		}
		got, want := testfile.Names(t, filepath.Join(filepath.Dir(path), "out")), []string{".mine.tmp", first}
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %v in the folder, want %v as before", name, got, want)
		}
	}
}

// TestRefusedLeavesNothing: a run that is refused leaves its directory as it was, with --fresh as well.
func TestRefusedLeavesNothing(t *testing.T) {
	path := writeRun(t, 30, "epochs: 1\n")
	out := filepath.Join(filepath.Dir(path), "out")
	text := mustRead(t, path)
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	refuse := func(o Options) []string {
		write(strings.Replace(text, "epochs: 1", "epochs: 1\nvalidate: {by: pair_accuracy}", 1))
		o.Config, o.Factory = load(t, path), newFake().factory
		if _, err := Train(context.Background(), o); err == nil || exit.Code(err) != exit.Wrong {
			t.Fatalf("it was not refused: %v", err)
		}
		return testfile.Names(t, out)
	}
	if left := refuse(Options{}); !slices.Equal(left, []string{".lock"}) {
		t.Errorf("it left %v", left)
	}
	write(text)
	r := train(t, path, newFake())
	if left := refuse(Options{Fresh: true}); !slices.Contains(left, config.ScorerDir) ||
		!slices.Contains(left, records.MetricsFile) {
		t.Errorf("the run before it is gone: %v", left)
	}
	if _, err := os.Stat(filepath.Join(r.Scorer, "weights.txt")); err != nil {
		t.Error(err)
	}
}
