package trainer

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"assay/internal/long"
	"assay/internal/oracle"
	"assay/internal/trainer/config"
	"assay/internal/trainer/models"
	"assay/internal/trainer/records"
)

// writeOracle writes a run on a backbone of the oracle, with several micro-batches per step, the last one smaller.
func writeOracle(t *testing.T, family, text string, data ...string) string {
	t.Helper()
	dir, root := t.TempDir(), oracle.Folders(t)[0]
	var rows strings.Builder
	for g, p := range oracle.Read[[]struct{ Input, Edited string }](t, filepath.Join(root, "images", "pairs.json"))[:3] {
		for k, edit := range []string{p.Input, p.Edited} {
			fmt.Fprintf(&rows, `{"id": "%d-%d", "group": "g%d", "source": %q, "edit": %q, "instruction": "edit number %d", `+
				`"label": %d}`+"\n", g, k, g, filepath.Join(root, p.Input), filepath.Join(root, edit), g, k)
		}
	}
	for name, text := range map[string]string{"t.jsonl": rows.String(),
		"run.yaml": fmt.Sprintf("backbone: %s\nout: out\ndata: {%s}\ndevice: cpu\nthreads: 2\nbatch_size: 5\n"+
			"micro_batch: 2\nsteps: 9\noptimizer: {lr: 0.01}\n%s", filepath.Join(root, family, "backbone"),
			strings.Join(append(data, "train: t.jsonl"), ", "), text)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "run.yaml")
}

// left is the output of a run: metrics without times, and the scorer's files.
func left(t *testing.T, r *Result) map[string]string {
	t.Helper()
	metrics := mustRead(t, filepath.Join(r.Run, records.MetricsFile))
	all := map[string]string{records.MetricsFile: seconds.ReplaceAllString(metrics, "")}
	files, err := filepath.Glob(filepath.Join(r.Scorer, "*.safetensors"))
	if err != nil || len(files) == 0 {
		t.Fatal(err, files)
	}
	for _, f := range files {
		all[filepath.Base(f)] = mustRead(t, f)
	}
	return all
}

// TestResidentIsTheSame: if parameters and gradient sums stay on the device (the CPU here), losses, norms and trained
// tensors are bit-identical.
func TestResidentIsTheSame(t *testing.T) {
	long.Test(t)
	for name, write := range map[string]func(t *testing.T) string{
		"adapter": func(t *testing.T) string {
			return writeOracle(t, "llavanext", "lora: {r: 4, dropout: 0.1}\nvalidate: {every: 2}\nclip_norm: 0.5\n")
		},
		"tower": func(t *testing.T) string {
			return writeOracle(t, "qwen3_vl", "lora: {r: 2, parts: [language, vision]}\nrecompute: layers\n")
		},
		"full": func(t *testing.T) string { return writeOracle(t, "qwen2_5_vl", "mode: full\n") },
		"groups": func(t *testing.T) string {
			return writeOracle(t, "qwen2_vl", "losses: [{kind: bradley_terry}, {kind: l1, weight: 2}]\n",
				"sampling: whole_groups")
		},
		"judge": func(t *testing.T) string {
			return writeJudge(t, judgeLosses+"optimizer: {lr: 0.01}\nmicro_batch: 2\n")
		},
		"text": func(t *testing.T) string {
			path, _ := sftConfig(t, "qwen2_5_vl", "micro_batch: 2\n")
			return path
		},
		"answers": func(t *testing.T) string {
			return grpoConfig(t, "qwen2_5_vl", "grpo: {num_generations: 4, max_completion_length: 6, "+
				"rewards: [{kind: match, column: truth}]}\n")
		},
	} {
		t.Run(name, func(t *testing.T) {
			run := func() map[string]string {
				c := load(t, write(t))
				c.Steps = 2
				r, err := Train(context.Background(), Options{Config: c, Factory: models.Open})
				if err != nil {
					t.Fatal(err)
				}
				return left(t, r)
			}
			want := run()
			defer func(was func(*config.Config) bool) { models.Resident = was }(models.Resident)
			began := 0
			models.Resident = func(*config.Config) bool { began++; return true }
			if got := run(); began == 0 {
				t.Error("nothing stayed on the device")
			} else if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%.2000s", diff)
			}
		})
	}
}
