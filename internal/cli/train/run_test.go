package train

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/internal/exit"
	"assay/internal/oracle"
)

// call runs a command line as the process would.
func call(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	code = App.Run(context.Background(), args, &out, &err)
	return code, out.String(), err.String()
}

// writeRun makes a table of the oracle's pictures and a run over its tiny backbone.
func writeRun(t *testing.T, extra string) (config, out string) {
	t.Helper()
	dir, root := t.TempDir(), oracle.Folders(t)[0]
	var rows strings.Builder
	for i, p := range oracle.Read[[]struct{ Input, Edited string }](t, filepath.Join(root, "images", "pairs.json")) {
		for label, edit := range map[int]string{0: p.Input, 1: p.Edited} {
			fmt.Fprintf(
				&rows,
				`{"id": "%d-%d", "group": "g%d", "source": %q, "edit": %q, "instruction": "edit number %d", "label": %d}`+"\n",
				i,
				label,
				i,
				filepath.Join(root, p.Input),
				filepath.Join(root, edit),
				i,
				label,
			)
		}
	}
	config, out = filepath.Join(dir, "run.yaml"), filepath.Join(dir, "out")
	text := fmt.Sprintf(
		"backbone: %s\nout: out\ndata: {train: table.jsonl, validation: 0.25}\nbatch_size: 4\nhead: {hidden: [8]}\n%s",
		filepath.Join(root, "llavanext", "backbone"),
		extra,
	)
	for path, text := range map[string]string{config: text, filepath.Join(dir, "table.jsonl"): rows.String()} {
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return config, out
}

func TestTrainCommand(t *testing.T) {
	config, out := writeRun(t, "steps: 2\n")
	code, stdout, stderr := call(t, "--config", config, "--dry-run", "--json")
	var plan struct{ Steps, Trainable int64 }
	if err := json.Unmarshal(
		[]byte(stdout),
		&plan,
	); err != nil || code != exit.Done || plan.Steps != 2 ||
		plan.Trainable == 0 {
		t.Fatalf("%d %q %q", code, stdout, stderr)
	}
	if _, err := os.Stat(out); !os.IsNotExist(err) {
		t.Error("a dry run made the run directory")
	}
	code, stdout, stderr = call(t, "--config", config, "--json")
	var result struct {
		Steps   int64
		Scorer  string
		Resumed int64
	}
	if err := json.Unmarshal(
		[]byte(stdout),
		&result,
	); err != nil || code != exit.Done || result.Steps != 2 ||
		stderr != "" {
		t.Fatalf("%d %q %q", code, stdout, stderr)
	}
	for _, name := range []string{"scorer.yaml", "adapter_config.json", "adapter_model.safetensors", "head.safetensors",
		"README.md"} {
		if _, err := os.Stat(filepath.Join(result.Scorer, name)); err != nil {
			t.Error(err)
		}
	}
	if code, stdout, _ = call(t, "--config", config); code != exit.Done || !strings.Contains(stdout, "resumed at step 2") {
		t.Errorf("%d %q", code, stdout)
	}
}

// TestDryRunSaysRates: the plan has the settings of each group, including those inherited from schedule.
func TestDryRunSaysRates(t *testing.T) {
	config, _ := writeRun(t, `schedule: {kind: cosine, min_lr: 1e-5, warmup: 2}
optimizer: {groups: {head: {lr: 1e-3, schedule: {kind: wsd, warmup: 0}}, rows: {lr: 5e-5}}}
`)
	code, stdout, stderr := call(t, "--config", config, "--dry-run")
	for _, want := range []string{
		"head: 4 tensors, learning rate 0.001, weight decay 0, schedule wsd, decay 0.1, min_lr 1e-05\n",
		"rows: 2 tensors, learning rate 5e-05, weight decay 0, schedule cosine, warmup 2, min_lr 1e-05\n",
		"others: 12 tensors, learning rate 0.0001, weight decay 0, schedule cosine, warmup 2, min_lr 1e-05\n",
	} {
		if code != exit.Done || !strings.Contains(stdout, want) {
			t.Errorf("%d %q %q, want %q in it", code, stdout, stderr, want)
		}
	}
}

func TestModeHead(t *testing.T) {
	config, out := writeRun(t, "mode: head\nepochs: 5\n")
	if code, stdout, stderr := call(t, "--config", config); code != exit.Done {
		t.Fatalf("%d %q %q", code, stdout, stderr)
	}
	if _, err := os.Stat(filepath.Join(out, "scorer", "head.safetensors")); err != nil {
		t.Error(err)
	}
}

func TestWrongUsage(t *testing.T) {
	config, _ := writeRun(t, "batchsize: 3\nseed: -1\n")
	code, stdout, _ := call(t, "--config", config, "--json")
	var problem struct{ Problems []string }
	if err := json.Unmarshal(
		[]byte(stdout),
		&problem,
	); err != nil || code != exit.Wrong || len(problem.Problems) != 2 ||
		!strings.Contains(problem.Problems[0], "run.yaml:6:1: batchsize") {
		t.Errorf("%d %q", code, stdout)
	}
	good, _ := writeRun(t, "steps: 1\n")
	for _, args := range [][]string{nil, {"--config", config + ".gone"}, {"--config", good, "--resume"},
		{"--config", good, "--fresh", "--resume"}, {"stray"}} {
		if code, stdout, stderr := call(t, args...); code != exit.Wrong || stderr == "" {
			t.Errorf("%q: %d %q %q", args, code, stdout, stderr)
		}
	}
	for key, want := range map[string]string{
		"pair: frames":               `"frames"`,
		"end_of_turn: '<|nothing|>'": `end_of_turn: tokenizer does not know "<|nothing|>"`,
		"chat_template: '{{ x'":      "chat template",
		"lora: {targets: [nothing]}": `"nothing"`,
		"init: nowhere":              "nowhere",
	} {
		for _, dry := range []string{"--json", "--dry-run"} {
			config, _ := writeRun(t, "steps: 1\n"+key+"\n")
			if code, stdout, stderr := call(
				t,
				"--config",
				config,
				dry,
			); code != exit.Wrong ||
				!strings.Contains(strings.ReplaceAll(stdout, `\"`, `"`)+stderr, want) {
				t.Errorf("%s %s: %d %q %q", key, dry, code, stdout, stderr)
			}
		}
	}
	for _, n := range []string{"0", "-1"} {
		code, _, stderr := call(t, "--config", good, "--dry-run", "--ranks", n)
		if code != exit.Wrong || !strings.Contains(stderr, "--ranks "+n+": want 1 or more processes") {
			t.Errorf("--ranks %s: %d %q", n, code, stderr)
		}
	}
	bad, _ := writeRun(t, "steps: 1\ndevice: cuda:0\n")
	if code, _, stderr := call(t, "--config", bad); code == exit.Done {
		t.Errorf("cuda without a GPU: %q", stderr)
	}
}

// TestExamples runs the examples of --help that need nothing but this repository.
func TestExamples(t *testing.T) {
	root, build := filepath.Join("..", "..", ".."), t.TempDir()
	ran := 0
	for _, command := range []string{"export", "grad", "merge"} {
		_, help, _ := call(t, command, "--help")
		_, help, _ = strings.Cut(help, "Examples:\n")
		help, _, _ = strings.Cut(help, "\n\n")
		for _, line := range strings.Split(strings.ReplaceAll(help, "\\\n", ""), "\n") {
			args := strings.Fields(line)
			for i, a := range args {
				if strings.HasPrefix(a, "testdata/") {
					args[i] = filepath.Join(root, a)
				}
				args[i] = strings.Replace(args[i], "build/", build+"/", 1)
			}
			if code, _, stderr := call(t, args[1:]...); code != exit.Done {
				t.Errorf("%s: %d %s", line, code, stderr)
			}
			ran++
		}
	}
	if ran < 5 {
		t.Errorf("only %d examples", ran)
	}
}

// TestBackboneFlagIsChecked: --backbone may be in no folder that the run replaces, as the key may not.
func TestBackboneFlagIsChecked(t *testing.T) {
	config, out := writeRun(t, "")
	code, _, stderr := call(t, "--config", config, "--backbone", filepath.Join(out, "checkpoints", "qwen"))
	if want := "backbone: is in a folder that a run replaces (checkpoints in out)"; code != exit.Wrong ||
		!strings.Contains(stderr, want) {
		t.Errorf("got %d, %q, want %d, %q", code, stderr, exit.Wrong, want)
	}
}
