package generate

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"assay/chat"
	"assay/internal/long"
	"assay/model/fresh"
)

// TestLargeBatch: the answers of a model above the size limit of small models are also the same alone and in a batch.
// Its sessions must keep the weights packed: otherwise a single row is summed in another order.
func TestLargeBatch(t *testing.T) {
	long.Test(t)
	sizes, err := fresh.Defaults(fresh.Qwen25VL)
	if err != nil {
		t.Fatal(err)
	}
	sizes.Hidden, sizes.Heads, sizes.KVHeads, sizes.Layers, sizes.Intermediate = 512, 4, 2, 5, 2048 // 20 million
	dir := filepath.Join(t.TempDir(), "backbone")
	if _, err := fresh.Create(dir, sizes, []string{filepath.Join("..", "..", "README.md")}, 1); err != nil {
		t.Fatal(err)
	}
	m, err := Open(dir, Options{Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	ask := func(i int) *chat.Answer {
		a, err := m.Chat(
			context.Background(),
			question(fmt.Sprint(i, " what is there to see?")),
			chat.Options{MaxNewTokens: 10,
				Temperature: number(1.2), Seed: uint64(i), LogProbs: true},
		)
		if err != nil {
			t.Error(err)
			return nil
		}
		a.Usage.Cached = 0
		return a
	}
	sameTogether(t, 5, ask)
}

// sameTogether asks n questions one by one, then all at once, and compares the answers.
func sameTogether(t *testing.T, n int, ask func(i int) *chat.Answer) {
	t.Helper()
	alone, together := make([]*chat.Answer, n), make([]*chat.Answer, n)
	for i := range alone {
		alone[i] = ask(i)
	}
	var all sync.WaitGroup
	for i := range together {
		all.Go(func() { together[i] = ask(i) })
	}
	all.Wait()
	if diff := cmp.Diff(alone, together); diff != "" {
		t.Error(diff)
	}
}
