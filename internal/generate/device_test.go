package generate

import (
	"context"
	"errors"
	"math"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"assay/internal/long"
	"assay/internal/oracle"
)

// onGPU opens a model with the graphs and cache of a GPU, run on the CPU.
func onGPU(o Options) Options {
	o.Device, o.on = "cuda:0", "cpu"
	return o
}

// TestPlainCache: the GPU's float32 graphs, where attention over the cache is built from plain operators, return
// transformers' tokens, logits and log-probabilities; also with others in the batch, with shared prefixes, and in a
// cache that is too small for all.
func TestPlainCache(t *testing.T) {
	long.Test(t)
	eachFamily(t, func(t *testing.T, r *reference) {
		expect := oracle.Tensors(t, r.expect)
		for _, o := range []Options{{DType: "float32"}, {DType: "auto", Batch: 2}} {
			m := r.open(t, "", onGPU(o))
			if m.lm.DType() != "float32" { // as the fixtures are stored
				t.Fatalf("got type %s, want float32", m.lm.DType())
			}
			var all sync.WaitGroup
			for _, c := range r.Cases {
				if c.GenerationConfig != "" {
					continue
				}
				messages := r.messages(t, &c)
				all.Go(func() {
					a, err := m.Chat(context.Background(), messages, r.greedy())
					if err != nil {
						t.Error(err)
						return
					}
					if check(t, &c, a, expect); a.Usage.Cached == 0 {
						r.checkLogits(t, m, messages, &c, expect)
					}
				})
				if o.Batch == 0 { // one by one
					all.Wait()
				}
			}
			all.Wait()
		}
	})
}

// TestPlainSeveral: several texts after one prompt, with the graphs of a GPU.
func TestPlainSeveral(t *testing.T) {
	eachFamily(t, func(t *testing.T, r *reference) {
		messages := r.messages(t, r.named(t, r.Answers.Case))
		var texts []string
		for _, a := range r.Answers.Answers {
			texts = append(texts, a.Text)
		}
		got, err := r.open(t, "", onGPU(Options{})).Likelihoods(context.Background(), messages, texts...)
		if err != nil {
			t.Fatal(err)
		}
		for i, a := range r.Answers.Answers {
			if far := got[i].LogProb() - a.LogProb; !(math.Abs(far) <= 1e-4) {
				t.Errorf("%q: got log P %g away, want at most 1e-4", a.Text, far)
			}
		}
	})
}

// TestLost: if rows could not be moved in the cache, answers that depend on them end with the error, and the next
// request gets a new cache.
func TestLost(t *testing.T) {
	r := oracle.Read[reference](t, filepath.Join("..", "..", "testdata", "oracle", "generation", "qwen2_vl.json"))
	r.folder = filepath.Join("..", "..", "testdata", "oracle", "generation")
	c := r.named(t, "system")
	m, messages := r.open(t, "", Options{}), r.messages(t, c)
	answers := func() {
		t.Helper()
		a, err := m.Chat(context.Background(), messages, r.greedy())
		if err != nil || !slices.Equal(a.TokenIDs, c.NewIDs) || a.Usage.Cached != 0 {
			t.Errorf("got %+v, %v, want tokens %v, none cached", a, err, c.NewIDs)
		}
	}
	answers()
	e, gone := m.engine, errors.New("the device is gone")
	e.cancel() // between requests: nothing runs
	<-e.ended
	e.ctx, e.cancel = context.WithCancel(context.Background())
	e.ended = make(chan struct{})
	e.slots.check(gone)
	go e.loop()
	if a, err := m.Chat(context.Background(), messages, r.greedy()); !errors.Is(err, gone) {
		t.Errorf("Chat after the device is lost: got %+v, %v, want error %v", a, err, gone)
	}
	answers()
}
