package trainer

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"gorgonia.org/tensor"

	"assay/internal/exit"
	"assay/internal/optim"
	"assay/internal/trainer/config"
	"assay/internal/trainer/dataset"
	"assay/internal/trainer/mlflow"
	"assay/internal/trainer/models"
)

// fake is a linear model of features hashed from the instruction and the templates, with dropout: loss 10 |w x + b -
// label|.
type fake struct {
	params []optim.Param
	slow   time.Duration     // of a step
	print  map[string]string // fingerprint
	files  map[string]string // digests of the backbone
	poison string            // id of a sample with a NaN loss
	saves  int
	steps  func(n int) // called after each step
	done   int
	micro  int // micro-batch for auto
	seen   []dataset.Example
	parts  []int // edits of each Compare
}

const fakeWidth = 12

func newFake() *fake {
	w := make([]float32, fakeWidth)
	for i := range w {
		w[i] = float32(i%3) / 10
	}
	return &fake{params: []optim.Param{
		{Name: "layers.0.weight", Value: tensor.New(tensor.WithShape(1, fakeWidth), tensor.WithBacking(w))},
		{Name: "layers.0.bias", Value: tensor.New(tensor.WithShape(1), tensor.WithBacking([]float32{0}))},
	}, print: map[string]string{"backbone": "fake"}}
}

func (f *fake) Params() []optim.Param          { return f.params }
func (f *fake) Fingerprint() map[string]string { return f.print }
func (f *fake) Close() error                   { return nil }

func (f *fake) Files() (map[string]string, error) { return f.files, nil }

// outputOf returns the output of an example from a table.
func outputOf(e *dataset.Example) dataset.RowPicture {
	p, _ := e.Edit.Output.(dataset.RowPicture)
	return p
}

// examplesAnywhere returns examples that do not record the folder of their table.
func examplesAnywhere(all []dataset.Example) []dataset.Example {
	for i := range all {
		for _, role := range []string{"source", "edit"} {
			if p, ok := all[i].Edit.Picture(role).(dataset.RowPicture); ok {
				p.Folder = ""
				all[i].Edit.Set(role, p)
			}
		}
	}
	return all
}

func features(e *dataset.Example) []float32 {
	h := fnv.New64a()
	p := outputOf(e)
	fmt.Fprint(h, e.Edit.Instruction, e.Question, e.Answer, p.Augment)
	if strings.HasPrefix(p.Path, "e") { // of writeGroups
		fmt.Fprint(h, p.Path)
	}
	rng := rand.New(rand.NewPCG(h.Sum64(), 1))
	x := make([]float32, fakeWidth)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	return x
}

func (f *fake) Step(
	_ context.Context, batch []dataset.Example, in models.StepInput,
) (*models.StepResult, error) {
	if len(in.Items) > 0 {
		return f.compare(batch, in)
	}
	time.Sleep(f.slow)
	f.seen = append(f.seen, batch...)
	rng := rand.New(rand.NewPCG(in.Seed, 2))
	dw, db := make([]float32, fakeWidth), make([]float32, 1)
	r := &models.StepResult{Tokens: 7 * len(batch)}
	for i := range batch {
		x := features(&batch[i])
		for j := range x {
			if rng.Float64() < 0.1 {
				x[j] = 0
			}
		}
		score := f.score(x)
		loss := 10 * math.Abs(score-batch[i].Label)
		if batch[i].Edit.ID == f.poison {
			loss = math.NaN()
		}
		r.Loss, r.CE = append(r.Loss, loss), append(r.CE, 0)
		r.ScoreLoss, r.Score = append(r.ScoreLoss, loss/10), append(r.Score, score)
		sign := float32(10 * in.Weight)
		if score < batch[i].Label {
			sign = -sign
		}
		for j := range x {
			dw[j] += sign * x[j]
		}
		db[0] += sign
	}
	r.Grads = []*tensor.Dense{
		tensor.New(tensor.WithShape(1, fakeWidth), tensor.WithBacking(dw)),
		tensor.New(tensor.WithShape(1), tensor.WithBacking(db)),
	}
	if f.done++; f.steps != nil {
		f.steps(f.done)
	}
	return r, nil
}

func (f *fake) score(x []float32) float64 {
	s := f.params[1].Value.Float32s()[0]
	for j, w := range f.params[0].Value.Float32s() {
		s += w * x[j]
	}
	return float64(s)
}

func (f *fake) Score(_ context.Context, batch []dataset.Example) ([]float64, error) {
	var out []float64
	for i := range batch {
		out = append(out, f.score(features(&batch[i])))
	}
	return out, nil
}

func (f *fake) SaveScorer(dir string) error {
	f.saves++
	var b strings.Builder
	for _, p := range f.params {
		for _, v := range p.Value.Float32s() {
			fmt.Fprintf(&b, "%08x\n", math.Float32bits(v))
		}
	}
	return os.WriteFile(filepath.Join(dir, "weights.txt"), []byte(b.String()), 0o666)
}

func (f *fake) Plan(_ context.Context, in models.PlanInput) (*models.Plan, error) {
	sample := in.Examples
	return &models.Plan{
		Device:     "cpu",
		MicroBatch: f.micro,
		Tokens:     models.TokenCount{Min: 7, Mean: 7, Max: 7},
		Parameters: fakeWidth + 1,
		Trainable:  fakeWidth + 1,
		MemoryNeed: models.MemoryNeed{Bytes: map[string]int64{"sample": int64(len(sample))}},
	}, nil
}

func (f *fake) factory(context.Context, *config.Config) (models.Model, error) { return f, nil }

// writeRun writes a table of n rows with pictures and a configuration that uses it; extra is YAML. It returns the
// path of the configuration.
func writeRun(t *testing.T, n int, extra string) string {
	t.Helper()
	dir := t.TempDir()
	var rows strings.Builder
	for i := range n {
		split := "train"
		if i%5 == 0 {
			split = "test"
		}
		label := fmt.Sprint([]float64{0, 0.5, 1, 0.25}[i%4])
		if i == 3 {
			label = "null"
		}
		fmt.Fprintf(
			&rows,
			`{"id": "row%d", "group": "g%d", "source": "a.png", "edit": "a.png", "instruction": "do thing %d", "label": %s, `+
				`"split": %q}`+"\n",
			i,
			i/3,
			i,
			label,
			split,
		)
	}
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	write("a.png", "")
	write("table.jsonl", rows.String())
	write("run.yaml", `backbone: backbone
out: out
data: {train: table.jsonl, train_split: train, validation_split: test}
question: ['[INSTRUCTION]?', 'Is [INSTRUCTION] done?']
answer: ['It is [SCORE].', '[SCORE]']
head: {hidden: []}
optimizer: {lr: 0.01}
schedule: {kind: cosine, warmup: 0.1}
batch_size: 6
micro_batch: 4
seed: 3
`+extra)
	return filepath.Join(dir, "run.yaml")
}

func load(t *testing.T, path string) *config.Config {
	t.Helper()
	c, err := config.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestMain runs a training run if the test binary is started as a child: the configuration's path is in the
// environment.
func TestMain(m *testing.M) {
	path := os.Getenv("ASSAY_TRAINER_CHILD")
	mlflow.Interval = time.Millisecond
	if path == "" {
		os.Exit(m.Run())
	}
	f := newFake()
	if ms, err := strconv.Atoi(os.Getenv("ASSAY_TRAINER_SLOW")); err == nil {
		f.slow = time.Duration(ms) * time.Millisecond
	}
	if limit, err := strconv.ParseUint(os.Getenv("ASSAY_TRAINER_FILE_LIMIT"), 10, 64); err == nil {
		signal.Ignore(syscall.SIGXFSZ)
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: limit, Max: limit}); err != nil {
			panic(err)
		}
	}
	c, err := config.Load(path)
	if err == nil {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT)
		defer stop()
		_, err = Train(ctx, Options{Config: c, Factory: f.factory})
	}
	if err != nil && !errors.Is(err, exit.ErrInterrupted) {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(exit.Code(err))
}
