package reward

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"assay/edit"
	"assay/internal/long"
	"assay/model"
	_ "assay/model/families"
)

// breakable is a real scorer that can be told to fail.
type breakable struct {
	*model.Scorer
	broken atomic.Bool
}

func (b *breakable) Score(ctx context.Context, inputs []edit.Inputs) ([]edit.Score, []error, error) {
	if b.broken.Load() {
		return nil, nil, errors.New("the device is lost")
	}
	return b.Scorer.Score(ctx, inputs)
}

// Two copies of the shipped scorer share a load, and one breaks during it. Every request is answered with the score
// of a single copy, bit for bit.
func TestTwoRealCopies(t *testing.T) {
	long.Test(t)
	dir := filepath.Join("..", "..", "backbones", "tiny-scorer")
	open := func() (*model.Scorer, error) { return model.OpenScorer(dir, model.Options{Threads: 1}) }
	names := []string{"coffee.png", "chelsea.png", "astronaut.png"}
	var pictures [][]byte
	for _, name := range names {
		raw, err := os.ReadFile(filepath.Join("..", "..", "examples", "photos", name))
		if err != nil {
			continue
		}
		pictures = append(pictures, raw)
	}
	if len(pictures) < 2 {
		t.Fatal("no pictures")
	}
	request := func(i int) object {
		edits := []any{pictures[(i+1)%len(pictures)], pictures[i%len(pictures)]}
		return object{
			"source":      pictures[i%len(pictures)],
			"instruction": []string{"blur it", "light it"}[i%2],
			"edits":       edits,
		}
	}
	const requests = 24
	alone, err := open()
	if err != nil {
		t.Fatal(err)
	}
	defer alone.Close()
	_, one := start(t, Options{}, map[string]edit.Judge{"a": alone}, "a")
	var want [6][]byte
	for i := range want {
		_, _, want[i] = post(t, one.URL+"/v1/score", request(i))
	}
	var mu sync.Mutex
	var first *breakable
	v, err := Replicate(2, 0, func(i int) (edit.Judge, error) {
		s, err := open()
		b := &breakable{Scorer: s}
		mu.Lock()
		defer mu.Unlock()
		if i == 0 && first == nil {
			first = b
		}
		return b, err
	})
	if err != nil {
		t.Fatal(err)
	}
	s, h := start(t, Options{Batch: 4}, map[string]edit.Judge{"a": v}, "a")
	t.Cleanup(func() { v.Close() })
	if err := s.Warm(t.Context()); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	var answered atomic.Int64
	for caller := range 4 {
		all.Go(func() {
			for k := range requests / 4 {
				i := (caller + 4*k) % len(want)
				code, _, raw := post(t, h.URL+"/v1/score", request(i))
				if code != 200 || string(raw) != string(want[i]) {
					t.Errorf("%d %s, want %s", code, raw, want[i])
				}
				if answered.Add(1) == 6 {
					first.broken.Store(true)
				}
			}
		})
	}
	all.Wait()
	eventually(t, "a new copy", func() bool { n, _ := v.up(); return n == 2 && v.restarts(0) == 1 })
}
