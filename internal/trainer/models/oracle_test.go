package models

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"assay/checkpoints"
	"assay/data"
	"assay/edit"
	"assay/internal/optim"
	"assay/internal/oracle"
	"assay/internal/trainer/config"
	"assay/internal/trainer/dataset"
	"assay/internal/trainer/head"
	_ "assay/model/families"
)

// scorerConfig is a run that fine-tunes a scorer of the fixtures, on the CPU.
func scorerConfig(t *testing.T, folder, scorer string) *config.Config {
	t.Helper()
	path := filepath.Join(t.TempDir(), "run.yaml")
	text := fmt.Sprintf(
		"init: %s\nout: out\ndata: {train: t.jsonl}\ndevice: cpu\nthreads: 2\n",
		filepath.Join(folder, scorer),
	)
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	return load(t, path)
}

func caseExample(c *config.Config, folder string, o oracle.Case) dataset.Example {
	picture := func(path string) dataset.RowPicture {
		return dataset.RowPicture{File: data.File{Image: data.Image{Path: path}, Folder: folder}}
	}
	e := edit.New(picture(o.Source), picture(o.Edited), o.Instruction)
	e.ID = fmt.Sprint(o.ID)
	return dataset.Example{
		Edit:     *e,
		Question: c.Question[0],
		Answer:   c.Answer[0],
		Label:    o.Label / 10,
	}
}

// headOf reads the head of a scorer directory.
func headOf(t *testing.T, c *config.Config) *head.Gorgonia {
	t.Helper()
	own, _, err := checkpoints.ReadFile(filepath.Join(c.Init, "head.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	var params []optim.Param
	for i := range len(c.Head.Hidden) + 1 {
		for _, part := range []string{"weight", "bias"} {
			name := fmt.Sprintf("layers.%d.%s", i, part)
			params = append(params, optim.Param{Name: name, Value: own[name]})
		}
	}
	h, err := head.NewGorgonia(c.Head, params)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// TestGorgoniaHeadIsTheStepGraphs compares the head's two implementations behind the same backbone.
func TestGorgoniaHeadIsTheStepGraphs(t *testing.T) {
	ctx := context.Background()
	for _, scorer := range []string{"scorer", "scorer_sequence", "scorer_adiee"} {
		folder := filepath.Join(oracle.Folders(t)[0], "llavanext")
		c := scorerConfig(t, folder, scorer)
		m, err := Open(ctx, c)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		var batch []dataset.Example
		for _, o := range oracle.Read[[]oracle.Case](t, filepath.Join(folder, "cases.json"))[:3] {
			batch = append(batch, caseExample(c, folder, o))
		}
		step, err := m.Step(ctx, batch, StepInput{Weight: 0.25, Seed: 1})
		if err != nil {
			t.Fatal(err)
		}
		tuner := m.(*ScorerModel).tuner
		samples, err := prepareExamples(tuner, batch)
		if err != nil {
			t.Fatal(err)
		}
		states, err := tuner.Scorer.Hidden(ctx, samples)
		if err != nil {
			t.Fatal(err)
		}
		h := headOf(t, c)
		var labels []float64
		for _, e := range batch {
			labels = append(labels, e.Label)
		}
		r, err := h.Run(states, labels, 0.25*c.Loss.Score)
		if err != nil {
			t.Fatal(err)
		}
		if d := max(oracle.Far(r.Score, step.Score), oracle.Far(r.Loss, step.ScoreLoss)); !(d <= 1e-5) {
			t.Errorf("%s: scores %v and %v, losses %v and %v", scorer, r.Score, step.Score, r.Loss, step.ScoreLoss)
		}
		for i, p := range h.Params {
			for j, q := range m.Params() {
				if p.Name != q.Name {
					continue
				}
				if d := oracle.Far(r.Grads[i].Float32s(), step.Grads[j].Float32s()); !(d <= 1e-5) {
					t.Errorf("%s: gradient of %s is %g off", scorer, p.Name, d)
				}
			}
		}
	}
}
