package trainer

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/internal/long"
	"assay/internal/oracle"
	"assay/internal/trainer/config"
	"assay/internal/trainer/dataset"
	"assay/internal/trainer/models"
	"assay/internal/trainer/objective"
	"assay/losses"
	"assay/model"
)

// writeJudge writes a run with two new heads of mu and log sigma on the oracle's Qwen2.5-VL.
func writeJudge(t *testing.T, text string) string {
	t.Helper()
	dir, root := t.TempDir(), oracle.Folders(t)[0]
	scorer := fmt.Sprintf(`format: 2
backbone: %s
passes:
  - {pictures: [source, edit], prompt: 'Is it done? [INSTRUCTION]', position: last, heads: [following, quality]}
heads:
  following: {hidden: [8], activation: silu, outputs: mu_sigma, scale: [-1, 3]}
  quality: {hidden: [4], outputs: mu_sigma}
score: {fusion: mean}
score_range: [0, 10]
`, filepath.Join(root, "qwen2_5_vl", "backbone"))
	var rows strings.Builder
	for g, p := range oracle.Read[[]struct{ Input, Edited string }](t, filepath.Join(root, "images", "pairs.json")) {
		for k, edit := range []string{p.Input, p.Edited} {
			fmt.Fprintf(&rows, `{"id": "%d-%d", "group": "g%d", "source": %q, "edit": %q, "instruction": "edit number %d", `+
				`"label": %d, "label_following": %d, "label_quality": %g}`+"\n", g, k, g, filepath.Join(root, p.Input),
				filepath.Join(root, edit), g, k, k, float64(g%3)/2)
		}
	}
	return writeRunOf(t, dir, map[string]string{"scorer.yaml": scorer, "t.jsonl": rows.String(),
		"run.yaml": "scorer: scorer.yaml\nout: out\ndata: {train: t.jsonl, validation: 0.25}\n" +
			"device: cpu\nthreads: 2\nbatch_size: 4\nsteps: 4\n" + text})
}

// writeRunOf writes the files of a run into a folder, and returns the path of its run.yaml.
func writeRunOf(t *testing.T, dir string, files map[string]string) string {
	t.Helper()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "run.yaml")
}

const judgeLosses = "losses: [{kind: gaussian_draws, dimension: following, draws: 50}, " +
	"{kind: gaussian, dimension: quality, weight: 0.5}, {kind: thurstone, dimension: quality, weight: 2}]\n"

// TestJudgeGradient compares the gradient of an objective over two heads of mu and log sigma with central differences.
func TestJudgeGradient(t *testing.T) {
	long.Test(t)
	ctx := context.Background()
	c := load(t, writeJudge(t, judgeLosses))
	m, err := models.Open(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	tables, err := dataset.Open(c)
	if err != nil {
		t.Fatal(err)
	}
	defer tables.Close()
	l, err := dataset.NewLoader(c, tables.Train, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	batch, err := l.Read(0)
	if err != nil || len(batch) != 4 {
		t.Fatal(len(batch), err)
	}
	items := objective.New(c.Losses, l.Groups).Items(batch)
	objective.Normalize([][][]losses.Item{items})
	loss := func() (*models.StepResult, float64) {
		out, err := m.Step(ctx, batch, models.StepInput{Items: items, Weight: 1.0 / 4, Seed: 1, Draws: 2})
		if err != nil {
			t.Fatal(err)
		}
		sum := 0.0
		for k := range items {
			for i, it := range items[k] {
				sum += c.Losses[k].Factor() * it.Weight * out.Terms[k][i]
			}
		}
		return out, sum
	}
	out, _ := loss()
	rng, slope := rand.New(rand.NewPCG(1, 2)), 0.0
	directions := make([][]float32, len(m.Params()))
	for i, p := range m.Params() {
		for j := range p.Floats() {
			d := float32(rng.NormFloat64())
			directions[i] = append(directions[i], d)
			slope += float64(d) * float64(out.Grads[i].Float32s()[j])
		}
	}
	move := func(by float32) {
		for i, p := range m.Params() {
			for j := range p.Floats() {
				p.Floats()[j] += by * directions[i][j]
			}
		}
	}
	const eps = 2e-3
	move(eps)
	_, up := loss()
	move(-2 * eps)
	_, down := loss()
	if got := (up - down) / (2 * eps); !(math.Abs(got-slope) <= 0.01*math.Abs(slope)+0.01) {
		t.Errorf("the loss changes by %g along a direction, the gradient says %g", got, slope)
	}
}

// TestJudgeTrains: a run with heads of format 2 learns, resumes bit-identically, and writes a scorer that can be
// opened and fine-tuned.
func TestJudgeTrains(t *testing.T) {
	long.Test(t)
	ctx := context.Background()
	path := writeJudge(t, judgeLosses+"optimizer: {lr: 0.01}\nvalidate: {every: 2}\n")
	whole, err := Train(ctx, Options{Config: load(t, path), Factory: models.Open})
	if err != nil {
		t.Fatal(err)
	}
	if whole.Trains.Head == 0 || whole.Trains.TokenRows != 0 || whole.Trains.Backbone != nil {
		t.Errorf("%+v", whole.Trains)
	}
	s, err := model.OpenScorer(whole.Scorer, model.Options{Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if c := s.Config(); c.Format != 2 || len(c.Heads) != 2 || c.Heads["following"].Activation != "silu" {
		t.Errorf("%+v", c)
	}
	again := writeJudge(t, judgeLosses+"optimizer: {lr: 0.01}\nvalidate: {every: 2}\ncheckpoint: {steps: 1}\n")
	c := load(t, again)
	stop, cancel := context.WithCancel(ctx)
	factory := func(ctx context.Context, c *config.Config) (models.Model, error) {
		m, err := models.Open(ctx, c)
		return &stopping{m.(*models.ScorerModel), cancel}, err
	}
	if _, err := Train(stop, Options{Config: c, Factory: factory}); err == nil {
		t.Fatal("not interrupted")
	}
	second, err := Train(ctx, Options{Config: load(t, again), Factory: models.Open})
	if err != nil || second.Resumed == 0 {
		t.Fatal(second, err)
	}
	for _, file := range []string{"head.safetensors", "adapter_model.safetensors"} {
		a, errA := os.ReadFile(filepath.Join(whole.Scorer, file))
		b, errB := os.ReadFile(filepath.Join(second.Scorer, file))
		if errA != nil || errB != nil || string(a) != string(b) {
			t.Errorf("%s of the run that was stopped is another (%v, %v)", file, errA, errB)
		}
	}
	goOn := writeJudge(t, strings.Replace(judgeLosses, "gaussian_draws, dimension: following, draws: 50",
		"gaussian_logistic, dimension: following", 1))
	text, _ := os.ReadFile(goOn)
	text = []byte(strings.Replace(string(text), "scorer: scorer.yaml", "init: "+whole.Scorer, 1))
	if err := os.WriteFile(goOn, text, 0o666); err != nil {
		t.Fatal(err)
	}
	third, err := Train(ctx, Options{Config: load(t, goOn), Factory: models.Open})
	if err != nil {
		t.Fatal(err)
	}
	if v, err := json.Marshal(third.Validation); err != nil || !strings.Contains(string(v), "pair_accuracy") {
		t.Errorf("%s %v", v, err)
	}
}

// stopping interrupts its run at the second step.
type stopping struct {
	*models.ScorerModel
	cancel func()
}

func (s *stopping) Step(
	ctx context.Context, batch []dataset.Example, in models.StepInput,
) (*models.StepResult, error) {
	s.cancel()
	return s.ScorerModel.Step(ctx, batch, in)
}

func TestJudgeConfig(t *testing.T) {
	for want, text := range map[string]string{
		"it has [following quality]: select one":        "losses: [{kind: bradley_terry}]\n",
		"a scorer of format 2 learns no text":           "losses: [{kind: text}, {kind: l1, dimension: quality}]\n",
		"classes needs a head with outputs: classes":    "losses: [{kind: classes, dimension: quality}]\n",
		"question: belongs to scorers of format 1":      "losses: [{kind: mse, dimension: quality}]\nquestion: 'So?'\n",
		"losses: a scorer of format 2 trains on losses": "seed: 1\n",
		"no loss trains heads.following":                "losses: [{kind: l1, dimension: quality}]\n",
		"the scorer has no head \"beauty\"":             "losses: [{kind: l1, dimension: beauty}]\n",
	} {
		if _, err := config.Load(writeJudge(t, text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q in %v", want, err)
		}
	}
}

// TestJudgeType: the scorer that a run writes has the run's dtype. A regression test: it was once ignored.
func TestJudgeType(t *testing.T) {
	for text, want := range map[string]string{"": "float32", "dtype: bfloat16\n": "bfloat16", "dtype: auto\n": "float32"} {
		c := load(t, writeJudge(t, judgeLosses+text))
		p, err := models.NewParts(c, true)
		if err != nil {
			t.Fatal(err)
		}
		if c.Dtype != want || p.Config.DType != want {
			t.Errorf("%q: the run has %s, its scorer %s", text, c.Dtype, p.Config.DType)
		}
	}
}
