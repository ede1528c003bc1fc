package generate

import (
	"context"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"assay/chat"
	"assay/internal/long"
)

// TestChoices: several answers to one question equal, bit for bit, the answers to their seeds alone. The prompt is
// run once, and the best of them have the largest mean log-probabilities.
func TestChoices(t *testing.T) {
	long.Test(t)
	eachFamily(t, func(t *testing.T, r *reference) {
		c := r.named(t, "two_pictures")
		messages := r.messages(t, c)
		o := chat.Options{MaxNewTokens: 12, Temperature: number(1.3), Seed: 40, LogProbs: true}
		var alone []chat.Choice
		for i := range 11 {
			each := o
			each.Seed += uint64(i)
			a, err := r.open(t, "", Options{Batch: 1}).Chat(context.Background(), messages, each)
			if err != nil {
				t.Fatal(err)
			}
			alone = append(alone, chat.Choice{Index: i, Answer: a})
		}
		m := r.open(t, "", Options{Batch: 8})
		got, used, err := chat.Choices(context.Background(), m, messages, o, chat.Several{N: 11})
		if err != nil {
			t.Fatal(err)
		}
		computed := 0
		for i := range got {
			computed += got[i].Usage.Prompt - got[i].Usage.Cached
			got[i].Usage.Cached = 0
		}
		if diff := cmp.Diff(alone, got); diff != "" {
			t.Error(diff)
		}
		if n := len(c.InputIDs); computed >= n+n/2 || used.Prompt != n {
			t.Errorf("got %d tokens run for 11 answers, usage %+v, want those of the prompt's %d once", computed, used, n)
		}
		slices.SortStableFunc(alone, func(a, b chat.Choice) int {
			if a.MeanLogProb() > b.MeanLogProb() {
				return -1
			}
			return 1
		})
		best, _, err := chat.Choices(context.Background(), m, messages, o, chat.Several{N: 2, BestOf: 11})
		if err != nil || len(best) != 2 || best[0].Index != alone[0].Index || best[1].Text != alone[1].Text {
			t.Errorf("the best are %+v, %v; want %d and %d", best, err, alone[0].Index, alone[1].Index)
		}
		o.TopK = number(1) // only the most likely token is left: also transformers' result for num_return_sequences
		same, _, err := chat.Choices(context.Background(), m, messages, chat.Options{MaxNewTokens: r.MaxNewTokens,
			Temperature: o.Temperature, TopK: o.TopK}, chat.Several{N: 3})
		for _, a := range same {
			if !slices.Equal(a.TokenIDs, c.NewIDs) {
				t.Errorf("tokens %v, want the greedy ones", a.TokenIDs)
			}
		}
		if err != nil {
			t.Error(err)
		}
	})
}
