package trainer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"assay/internal/long"
	"assay/internal/oracle"
	"assay/internal/packed"
	"assay/internal/trainer/config"
	"assay/internal/trainer/dataset"
	"assay/internal/trainer/models"
	"assay/internal/trainer/records"
	"assay/lora"
)

// grpoRun is a run.json computed with TRL's loss (tools/oracle/grpo.py).
type grpoRun struct {
	Family        string
	R             int
	LR, Decay     float64
	Beta          float64
	LossType      string `json:"loss_type"`
	NumIterations int    `json:"num_iterations"`
	Temperature   float64
	Epsilon       float64
	EpsilonHigh   float64 `json:"epsilon_high"`
	ScaleRewards  string  `json:"scale_rewards"`
	MaskTruncated bool    `json:"mask_truncated_completions"`
	Longest       int
	Steps         []struct {
		Answers [][]struct {
			IDs    []int64
			Reward float64
			Cut    bool
		}
		torchStep
		KL        *float64 `json:"kl"`
		ClipRatio float64  `json:"clip_ratio"`
	}
}

// policy is the interface of a model that learns from rewards.
type policy interface {
	models.Graph
	models.Policy
	textMeasurer
	dataset.Inspector
}

// steered is a model with given answers, or that fails.
type steered struct {
	policy
	answers func(ctx context.Context, prompts []dataset.Example, step int64) (models.Completions, error) // nil: its own
	step    func() error                                                                                 // before a pass
}

func (s *steered) Complete(
	ctx context.Context, prompts []dataset.Example, mine func(int) bool, step int64,
) (models.Completions, error) {
	if s.answers != nil {
		if out, err := s.answers(ctx, prompts, step); out != nil || err != nil {
			return out, err
		}
	}
	return s.policy.Complete(ctx, prompts, mine, step)
}

func (s *steered) Step(
	ctx context.Context, batch []dataset.Example, in models.StepInput,
) (*models.StepResult, error) {
	if s.step != nil {
		if err := s.step(); err != nil {
			return nil, err
		}
	}
	return s.policy.Step(ctx, batch, in)
}

func steeredBy(s *steered) models.Factory {
	return func(ctx context.Context, c *config.Config) (models.Model, error) {
		m, err := models.Open(ctx, c)
		if err != nil {
			return nil, err
		}
		s.policy = m.(policy)
		return s, nil
	}
}

// grpoConfig writes a configuration with the prompts in testdata/grpo, and returns its path.
func grpoConfig(t *testing.T, family, text string) string {
	t.Helper()
	prompts, err := filepath.Abs("testdata/grpo/prompts.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	backbone, err := filepath.Abs(filepath.Join("..", "..", "testdata", "oracle", family, "backbone"))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "run.yaml")
	text = fmt.Sprintf("mode: text\nobjective: grpo\nbackbone: %s\nout: out\ndata: {train: %s}\ndevice: cpu\nthreads: 2\n"+
		"batch_size: 12\n%s", backbone, prompts, text)
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestGRPOIsTRL takes three steps on given answers: loss, KL, share of clipped tokens, gradient and tensors match
// TRL's, with micro-batches of any size.
func TestGRPOIsTRL(t *testing.T) {
	for name, micro := range map[string]string{"dapo": "auto", "clipped": "4", "dr": "3"} {
		t.Run(name, func(t *testing.T) {
			if name != "dr" {
				long.Test(t)
			}
			made := filepath.Join(packed.Unpack(t, "testdata/grpo/runs.zip"), name)
			want := oracle.Read[grpoRun](t, filepath.Join(made, "run.json"))
			high := ""
			if want.EpsilonHigh > 0 {
				high = fmt.Sprintf(", epsilon_high: %g", want.EpsilonHigh)
			}
			path := grpoConfig(t, want.Family, fmt.Sprintf("init: %s\nsteps: %d\noptimizer: {lr: %g, weight_decay: %g}\n"+
				"micro_batch: %s\ngrpo: {num_generations: 4, max_completion_length: %d, temperature: %g, beta: %g, epsilon: %g%s, "+
				"loss_type: %s, scale_rewards: %s, num_iterations: %d, mask_truncated_completions: %v, "+
				"rewards: [{kind: match, column: truth}]}\n", filepath.Join(made, "init"), len(want.Steps), want.LR, want.Decay,
				micro, want.Longest, want.Temperature, want.Beta, want.Epsilon, high, want.LossType, want.ScaleRewards,
				want.NumIterations, want.MaskTruncated))
			given := func(_ context.Context, prompts []dataset.Example, step int64) (models.Completions, error) {
				out := models.Completions{}
				for _, e := range prompts {
					var number int
					if _, err := fmt.Sscanf(e.Edit.ID, "p%d", &number); err != nil {
						return nil, err
					}
					for _, a := range want.Steps[step-1].Answers[number] {
						out[e.Unit] = append(out[e.Unit], dataset.Completion{IDs: a.IDs, Reward: a.Reward, Truncated: a.Cut,
							Rewards: []float64{a.Reward}})
					}
				}
				return out, nil
			}
			r, err := Train(t.Context(), Options{Config: load(t, path), Factory: steeredBy(&steered{answers: given})})
			if err != nil {
				t.Fatal(err)
			}
			for i, s := range trainedSteps(t, path, len(want.Steps)) {
				w := &want.Steps[i]
				w.compare(t, &s, 1e-5, 2e-5)
				if (s.Answers.KL != nil) != (w.KL != nil) || w.KL != nil && !(off(float64(*s.Answers.KL), *w.KL) <= 1e-5) ||
					!(off(float64(s.Answers.ClipRatio), w.ClipRatio) <= 1e-6) {
					t.Errorf("step %d: got KL %v, clipped %v; want %v, %v", i+1, s.Answers.KL, s.Answers.ClipRatio, w.KL, w.ClipRatio)
				}
			}
			compareTrained(t, r.Scorer, filepath.Join(made, "final.safetensors"), false)
		})
	}
}

// fewAnswers are four short answers to each prompt.
const fewAnswers = "grpo: {num_generations: 4, max_completion_length: 6, beta: %g, num_iterations: %d, " +
	"rewards: [{kind: %s}]}\n"

// TestGRPOEqualRewards: if all answers to a prompt have the same reward, weights only change by weight decay.
func TestGRPOEqualRewards(t *testing.T) {
	tokens := map[float64]int{}
	for name, decay := range map[string]float64{"without decay": 0, "with decay": 0.1} {
		t.Run(name, func(t *testing.T) {
			micro := 4 // all answers to a prompt
			if decay > 0 {
				micro = 1
			}
			path := grpoConfig(t, "qwen2_vl", fmt.Sprintf("steps: 1\noptimizer: {lr: 0.01, weight_decay: %g}\n"+
				"micro_batch: %d\n"+fewAnswers, decay, micro, 0.0, 1, "match, column: truth"))
			var before map[string][]float32
			s := &steered{}
			s.step = func() error {
				if before == nil {
					before = map[string][]float32{}
					for _, p := range s.Params() {
						before[p.Name] = append([]float32(nil), p.Value.Float32s()...)
					}
				}
				return nil
			}
			r, err := Train(t.Context(), Options{Config: load(t, path), Factory: steeredBy(s)})
			if err != nil {
				t.Fatal(err)
			}
			a, err := lora.Load(r.Scorer)
			if err != nil {
				t.Fatal(err)
			}
			kept := float32(1 - 0.01*decay)
			for name, b := range before {
				for i, x := range a.Tensors[name].Float32s() {
					if want := b[i] * kept; !(math.Abs(float64(x-want)) <= 1e-7) || decay == 0 && x != b[i] {
						t.Fatalf("%s[%d]: got %v, want %v", name, i, x, want)
					}
				}
			}
			for _, m := range metricLines[records.StepMetrics](t, path, "train") {
				if m.GradNorm != 0 || m.Answers.SameReward != 1 || m.Answers.Reward != 0 {
					t.Errorf("got norm %v, %+v; want none, and equal rewards", m.GradNorm, m.Answers)
				}
				tokens[decay] += m.Tokens
			}
		})
	}
	if 2*tokens[0] > tokens[0.1] {
		t.Errorf("got %d tokens in groups, %d one by one; want the prompts once for all answers", tokens[0], tokens[0.1])
	}
}

// TestGRPOResumes stops a run while answers are generated, and between two steps over the same answers. The result is
// bit-identical to that of a run without a stop.
func TestGRPOResumes(t *testing.T) {
	long.Test(t)
	text := fmt.Sprintf("steps: 6\noptimizer: {lr: 0.01}\ncheckpoint: {steps: 1}\nvalidate: {every: 1}\nseed: 3\n"+
		fewAnswers, 0.1, 2, "distance, range: [0, 10], column: number")
	run := func(t *testing.T, stop string) (adapter []byte, metrics []records.StepMetrics) {
		path := grpoConfig(t, "qwen2_vl", text)
		withNumbers(t, path)
		s, passes := &steered{}, 0
		broken := errors.New("the power is gone")
		worth := func(out models.Completions) { // the tiny model outputs no numbers: rewards by its tokens
			for _, group := range out {
				for k := range group {
					group[k].Reward = float64(group[k].IDs[0]%7) / 7
				}
			}
		}
		s.answers = func(ctx context.Context, prompts []dataset.Example, step int64) (models.Completions, error) {
			out, err := s.policy.Complete(ctx, prompts, func(int) bool { return true }, step)
			worth(out)
			if stop == "answering" && step == 5 {
				stop = ""
				return nil, broken
			}
			return out, err
		}
		s.step = func() error {
			if passes++; stop == "learning" && passes == 4*3+1 { // step 4 learns from the answers of step 3
				stop = ""
				return broken
			}
			return nil
		}
		o := Options{Config: load(t, path), Factory: steeredBy(s)}
		o.Config.MicroBatch = 4
		r, err := Train(t.Context(), o)
		if errors.Is(err, broken) {
			o.Resume = true
			r, err = Train(t.Context(), o)
			if err == nil && r.Resumed == 0 {
				t.Error("the run started over")
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		if adapter, err = os.ReadFile(filepath.Join(r.Scorer, "adapter_model.safetensors")); err != nil {
			t.Fatal(err)
		}
		card, err := os.ReadFile(filepath.Join(r.Scorer, "README.md"))
		if err != nil || !strings.Contains(string(card), "| reward | read |") {
			t.Errorf("got the card %s, %v; want rewards of the validation", card, err)
		}
		metrics = metricLines[records.StepMetrics](t, path, "train")
		for i := range metrics {
			metrics[i].Seconds, metrics[i].Waited = 0, 0
		}
		return adapter, metrics
	}
	want, all := run(t, "")
	for _, stop := range []string{"answering", "learning"} {
		t.Run(stop, func(t *testing.T) {
			got, steps := run(t, stop)
			if string(got) != string(want) {
				t.Error("got another adapter")
			}
			a, _ := json.Marshal(steps)
			b, _ := json.Marshal(all)
			if string(a) != string(b) {
				t.Errorf("got metrics\n%s\nwant\n%s", a, b)
			}
		})
	}
}

// TestGRPOFused: with fused operators a run samples the answers of one with plain operators, and learns the
// same from them.
func TestGRPOFused(t *testing.T) {
	long.Test(t)
	type seen struct {
		answers [][]int64
		steps   []float64 // loss and gradient norm
	}
	run := func(kernels, family string) (got seen) {
		t.Helper()
		path := grpoConfig(t, family, fmt.Sprintf("steps: 3\noptimizer: {lr: 0.01}\n"+
			"lora: {targets: [q_proj, k_proj, v_proj, down_proj]}\n"+
			"device_options: {kernels: %s}\n"+fewAnswers, kernels, 0.1, 2, "match, column: truth"))
		s := &steered{}
		s.answers = func(ctx context.Context, prompts []dataset.Example, step int64) (models.Completions, error) {
			out, err := s.policy.Complete(ctx, prompts, func(int) bool { return true }, step)
			for i := range prompts {
				for k := range out[i] {
					a := &out[i][k]
					a.Reward = float64(a.IDs[0]%7) / 7
					got.answers = append(got.answers, a.IDs)
				}
			}
			return out, err
		}
		if _, err := Train(t.Context(), Options{Config: load(t, path), Factory: steeredBy(s)}); err != nil {
			t.Fatal(err)
		}
		for _, m := range metricLines[records.StepMetrics](t, path, "train") {
			got.steps = append(got.steps, float64(m.Loss), float64(m.GradNorm))
		}
		return got
	}
	for _, family := range []string{"qwen2_vl", "qwen2_5_vl", "qwen3_vl"} {
		t.Run(family, func(t *testing.T) {
			got, want := run("fused", family), run("plain", family)
			if diff := cmp.Diff(want.answers, got.answers); diff != "" {
				t.Errorf("answers (-plain +fused):\n%s", diff)
			}
			near := cmpopts.EquateApprox(1e-4, 1e-6)
			if diff := cmp.Diff(want.steps, got.steps, near); diff != "" || len(want.steps) != 6 {
				t.Errorf("losses and gradient norms %v (-plain +fused):\n%s", want.steps, diff)
			}
		})
	}
}

// resumedPlan plans like a run that resumes with micro-batches of two answers.
type resumedPlan struct{ policy }

func (m resumedPlan) Plan(ctx context.Context, in models.PlanInput) (*models.Plan, error) {
	in.MicroBatch = 2
	return m.policy.(models.Planner).Plan(ctx, in)
}

// TestGRPORecomputeAuto: as many layers are recomputed as memory requires, and a resumed run keeps its micro-batch
// whatever the memory.
func TestGRPORecomputeAuto(t *testing.T) {
	long.Test(t)
	plan := func(memory int64, text string, resumed bool) *models.Plan {
		t.Helper()
		c := load(t, grpoConfig(t, "qwen2_vl", text+fmt.Sprintf(fewAnswers, 0.1, 2, "match, column: truth")))
		c.GRPO.MaxCompletionLength = 300 // so that recomputation saves a region of the arena
		p, err := DryRun(t.Context(), c, func(ctx context.Context, c *config.Config) (models.Model, error) {
			m, err := models.OpenPlanFor(memory)(ctx, c)
			if resumed && err == nil {
				m = resumedPlan{m.(policy)}
			}
			return m, err
		})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	const micro = "micro_batch: 4\n"
	kept, all := plan(80e9, micro, false), plan(80e9, micro+"recompute: layers\n", false)
	if all.Need >= kept.Need {
		t.Fatalf("%d bytes are needed with recomputation, %d without", all.Need, kept.Need)
	}
	for _, c := range []struct {
		memory int64
		first  int
		need   int64
	}{{80e9, 0, kept.Need}, {1e6, 3, all.Need}} {
		p := plan(c.memory, micro+"recompute: auto\n", false)
		if p.Recompute == nil || *p.Recompute != (models.RecomputedLayers{First: c.first, Of: 3}) || p.Need != c.need {
			t.Errorf("%d bytes: got %v and %d bytes, want the first %d of 3 layers and %d", c.memory, p.Recompute, p.Need,
				c.first, c.need)
		}
		if p := plan(c.memory, "recompute: auto\n", true); p.MicroBatch != 2 {
			t.Errorf("%d bytes, resumed: got micro-batches of %d, want 2", c.memory, p.MicroBatch)
		}
	}
}

// withNumbers adds a column number to the prompts of a configuration, and also uses them as validation rows.
func withNumbers(t *testing.T, path string) {
	t.Helper()
	raw, err := os.ReadFile("testdata/grpo/prompts.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	images, err := filepath.Abs("../../testdata/oracle/images")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(string(raw), `"truth": "Yes"`, `"number": 4`)
	text = strings.ReplaceAll(text, "../../../../testdata/oracle/images", images)
	table := filepath.Join(filepath.Dir(path), "prompts.jsonl")
	config, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(table, []byte(text), 0o666)
	}
	if err == nil {
		lines := strings.Split(string(config), "\n")
		for i := range lines {
			if strings.HasPrefix(lines[i], "data:") {
				lines[i] = "data: {train: prompts.jsonl, validation: prompts.jsonl}"
			}
		}
		err = os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o666)
	}
	if err != nil {
		t.Fatal(err)
	}
}
