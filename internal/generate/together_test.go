package generate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"assay/chat"
	"assay/data"
	"assay/internal/long"
)

// questions are requests of many kinds: with and without pictures, long and short, greedy and sampled; some share a
// prefix.
func questions(t *testing.T, r *reference) (messages [][]chat.Message, options []chat.Options) {
	t.Helper()
	for i := range 2 {
		for k := range r.Cases {
			m := r.messages(t, &r.Cases[k])
			last := &m[len(m)-1].Content[len(m[len(m)-1].Content)-1]
			if last.Text += strings.Repeat(" more", 3*i*k); i > 0 {
				last.Text += fmt.Sprintf(" %d", k)
			}
			o := chat.Options{MaxNewTokens: 4 + 5*k, LogProbs: true, Temperature: number(0.0)}
			if (k+i)%2 == 0 {
				o.Temperature, o.Seed = number(1.5), uint64(k)
			}
			messages, options = append(messages, m), append(options, o)
		}
	}
	return messages, options
}

// TestTogether: an answer is bit-identical alone, with a prefix of its prompt in the cache, and among others that
// come and go.
func TestTogether(t *testing.T) {
	long.Test(t)
	eachFamily(t, func(t *testing.T, r *reference) {
		messages, options := questions(t, r)
		want := make([]*chat.Answer, len(messages))
		ask := func(m *Model, i int) *chat.Answer {
			t.Helper()
			a, err := m.Chat(context.Background(), messages[i], options[i])
			if err != nil {
				t.Error(err)
				return nil
			}
			a.Usage.Cached = 0
			return a
		}
		for i := range messages { // alone: a cache of one slot holds only the previous answer
			if i%5 == 0 {
				m := r.open(t, "", Options{Batch: 1})
				for k := i; k < min(i+5, len(messages)); k++ {
					want[k] = ask(m, k)
				}
			}
		}
		for _, o := range []Options{{Batch: 1}, {Batch: 3}, {Batch: 8}, {Batch: 4, Threads: 2}} {
			m := r.open(t, "", o)
			got := make([]*chat.Answer, len(messages))
			var all sync.WaitGroup
			for i := range messages {
				all.Go(func() { got[i] = ask(m, i) })
			}
			all.Wait()
			for i := range got {
				if diff := cmp.Diff(want[i], got[i]); diff != "" {
					t.Errorf("%+v, question %d (-want +got):\n%s", o, i, diff)
				}
			}
		}
	})
}

// TestSharedPrefix: six questions about the same pictures compute the pictures once, whether they come together or in
// turn, and the answers are the same as without sharing.
func TestSharedPrefix(t *testing.T) {
	long.Test(t)
	eachFamily(t, func(t *testing.T, r *reference) {
		c := r.named(t, "two_pictures")
		ask := func(m *Model, i int) *chat.Answer {
			messages := r.messages(t, c)
			messages[0].Content[2].Text = fmt.Sprintf("%s Question %d of six.", messages[0].Content[2].Text, i)
			a, err := m.Chat(context.Background(), messages, r.greedy())
			if err != nil {
				t.Fatal(err)
			}
			return a
		}
		var alone []*chat.Answer
		for i := range 6 {
			alone = append(alone, ask(r.open(t, "", Options{}), i))
			if alone[i].Usage.Cached != 0 {
				t.Errorf("a new model: got %d cached tokens, want none", alone[i].Usage.Cached)
			}
		}
		for _, together := range []bool{false, true} {
			m := r.open(t, "", Options{Batch: 4})
			got := make([]*chat.Answer, 6)
			var all sync.WaitGroup
			for i := range 6 {
				if all.Go(func() { got[i] = ask(m, i) }); !together {
					all.Wait()
				}
			}
			all.Wait()
			fresh := 0
			for i, a := range got {
				if a.Usage.Cached == 0 {
					fresh++
				} else if a.Usage.Cached < a.Usage.Prompt/2 {
					t.Errorf("question %d: got %d of %d tokens shared, want at least half", i, a.Usage.Cached, a.Usage.Prompt)
				}
				if a.Usage.Cached = 0; cmp.Diff(alone[i], a) != "" {
					t.Errorf("question %d (-want +got):\n%s", i, cmp.Diff(alone[i], a))
				}
			}
			if fresh != 1 {
				t.Errorf("together %t: got %d of 6 prompts computed from their beginning, want 1", together, fresh)
			}
		}
	})
}

// TestOtherPicture: prompts with equal tokens about different pictures do not share the rows of the pictures.
func TestOtherPicture(t *testing.T) {
	eachFamily(t, func(t *testing.T, r *reference) {
		ask := func(m *Model, flip bool) *chat.Answer {
			messages := r.messages(t, r.named(t, "one_picture"))
			if p := messages[0].Content[0].Image; flip {
				messages[0].Content[0].Image = p.FlipHorizontal()
			}
			a, err := m.Chat(context.Background(), messages, r.greedy())
			if err != nil {
				t.Fatal(err)
			}
			a.Usage.Cached = 0
			return a
		}
		want := ask(r.open(t, "", Options{}), true)
		m := r.open(t, "", Options{})
		if first := ask(m, false); cmp.Equal(first, want) {
			t.Fatalf("both pictures: got the same answer %+v, want others, or this test sees nothing", first)
		}
		if diff := cmp.Diff(want, ask(m, true)); diff != "" {
			t.Error(diff)
		}
	})
}

// TestBudget: a request that cannot fit is refused; the others are answered, as many at a time as fit.
func TestBudget(t *testing.T) {
	eachFamily(t, func(t *testing.T, r *reference) {
		big := r.open(t, "", Options{})
		c := r.named(t, "two_pictures")
		messages := r.messages(t, c)
		need := int64(rounded(len(c.InputIDs)+r.MaxNewTokens)) * big.lm.RowBytes()
		for _, cache := range []int64{need - 1, need, 2*need + 1} {
			t.Run(fmt.Sprint(cache), func(t *testing.T) {
				m := r.open(t, "", Options{Cache: cache})
				var all sync.WaitGroup
				for range 3 {
					all.Go(func() {
						a, err := m.Chat(context.Background(), messages, r.greedy())
						if cache < need {
							if !errors.Is(err, chat.ErrRequest) || !strings.Contains(err.Error(), "larger cache") {
								t.Errorf("with %d bytes: got %v, %v, want an error with %q", cache, a, err, "larger cache")
							}
						} else if err != nil || cmp.Diff(c.NewIDs, a.TokenIDs) != "" {
							t.Errorf("with %d bytes: got %+v, %v, want tokens %v", cache, a, err, c.NewIDs)
						}
					})
				}
				all.Wait()
				if s := m.engine.slots; cache >= need && int64(s.cache.Slots()*s.cache.Capacity())*big.lm.RowBytes() > cache {
					t.Errorf("got a cache of %d slots of %d rows, want at most %d bytes", s.cache.Slots(), s.cache.Capacity(), cache)
				}
			})
		}
	})
}

// TestSampling: a sampled answer is a function of its seed.
func TestSampling(t *testing.T) {
	eachFamily(t, func(t *testing.T, r *reference) {
		m, messages := r.open(t, "", Options{}), r.messages(t, r.named(t, "system"))
		seen := map[string]bool{}
		for seed := range uint64(4) {
			o := chat.Options{MaxNewTokens: 12, Temperature: number(2.0), TopK: number(0), TopP: number(1.0), Seed: seed}
			var texts [2]string
			for i := range texts {
				a, err := m.Chat(context.Background(), messages, o)
				if err != nil {
					t.Fatal(err)
				}
				texts[i] = a.Text
			}
			if texts[0] != texts[1] {
				t.Errorf("seed %d: got %q, then %q, want the same", seed, texts[0], texts[1])
			}
			seen[texts[0]] = true
		}
		if len(seen) < 3 {
			t.Errorf("4 seeds: got %d answers, want at least 3", len(seen))
		}
	})
}

// TestStops: texts and ids that end an answer, wherever they fall between tokens.
func TestStops(t *testing.T) {
	eachFamily(t, func(t *testing.T, r *reference) {
		c := r.named(t, "two_turns")
		m, messages := r.open(t, "", Options{}), r.messages(t, c)
		runes := []rune(c.Text)
		at := len(runes) / 2
		stop := string(runes[at : at+3])
		before, _, _ := strings.Cut(c.Text, stop)
		o := r.greedy()
		o.Stop = []string{"never said by anybody", stop}
		var told strings.Builder
		a, err := m.Stream(context.Background(), messages, o, func(s string) error { told.WriteString(s); return nil })
		if err != nil || a.Text != before || told.String() != before || a.Finish != chat.FinishStop {
			t.Errorf("stop %q: %+v, told %q, %v; want %q", stop, a, told.String(), err, before)
		}
		o = r.greedy()
		o.StopTokenIDs = []int64{c.NewIDs[7]}
		if a, err = m.Chat(context.Background(), messages, o); err != nil || a.Finish != chat.FinishStop ||
			cmp.Diff(a.TokenIDs, c.NewIDs[:len(a.TokenIDs)]) != "" || a.TokenIDs[len(a.TokenIDs)-1] != c.NewIDs[7] {
			t.Errorf("stop token %d: got %+v, %v, want the answer up to it", c.NewIDs[7], a, err)
		}
	})
}

// TestRefused: every problem of a request is an error of that request.
func TestRefused(t *testing.T) {
	eachFamily(t, func(t *testing.T, r *reference) {
		m := r.open(t, "", Options{})
		user := func(parts ...chat.Part) []chat.Message { return []chat.Message{{Role: "user", Content: parts}} }
		placeholder := r.special(t)
		for name, c := range map[string]struct {
			messages []chat.Message
			o        chat.Options
			want     string
		}{
			"no messages": {nil, chat.Options{}, "no messages"},
			"placeholder": {user(chat.Part{Text: "a " + placeholder}), chat.Options{}, "special token"},
			"temperature": {user(chat.Part{Text: "a"}), chat.Options{Temperature: number(-1.0)}, "temperature"},
			"top_p":       {user(chat.Part{Text: "a"}), chat.Options{TopP: number(1.5)}, "top_p"},
			"top_k":       {user(chat.Part{Text: "a"}), chat.Options{TopK: number(-2)}, "top_k"},
			"penalty":     {user(chat.Part{Text: "a"}), chat.Options{RepetitionPenalty: number(0.0)}, "repetition_penalty"},
			"tokens":      {user(chat.Part{Text: "a"}), chat.Options{MaxNewTokens: -1}, "max_new_tokens"},
			"empty stop":  {user(chat.Part{Text: "a"}), chat.Options{Stop: []string{""}}, "stop"},
			"no UTF-8":    {user(chat.Part{Text: "a\xff"}), chat.Options{}, "UTF-8"},
			"long":        {user(chat.Part{Text: strings.Repeat("word ", 9000)}), chat.Options{}, "max_position_embeddings"},
			"bad picture": {user(chat.Part{Image: &data.Picture{Width: 3, Height: 3}}), chat.Options{}, "picture 1"},
		} {
			t.Run(name, func(t *testing.T) {
				a, err := m.Chat(context.Background(), c.messages, c.o)
				if !errors.Is(err, chat.ErrRequest) || !strings.Contains(err.Error(), c.want) {
					t.Errorf("%s: got %v, %v, want an error with %q", name, a, err, c.want)
				}
			})
		}
	})
}

// special returns the placeholder of pictures in the prompts.
func (r *reference) special(t *testing.T) string {
	for _, s := range []string{"<image>", "<|image_pad|>"} {
		if strings.Contains(r.named(t, "one_picture").Prompt, s) {
			return s
		}
	}
	t.Fatalf("prompt: got no placeholder that is known, want one")
	return ""
}

// TestCancel: a cancelled request is dropped and the others continue; closing ends all.
func TestCancel(t *testing.T) {
	eachFamily(t, func(t *testing.T, r *reference) {
		c := r.named(t, "one_picture")
		m, messages := r.open(t, "", Options{Batch: 2}), r.messages(t, c)
		long := chat.Options{MaxNewTokens: 2000, Temperature: number(0.0), RepetitionPenalty: number(1.0)}
		gone := errors.New("gone")
		ctx, cancel := context.WithCancelCause(context.Background())
		defer cancel(nil)
		said := 0
		_, err := m.Stream(ctx, messages, long, func(string) error {
			if said++; said == 3 {
				return gone
			}
			return nil
		})
		if !errors.Is(err, gone) {
			t.Errorf("an answer nobody listens to: got error %v, want %v", err, gone)
		}
		if a, err := m.Chat(context.Background(), messages, r.greedy()); err != nil || cmp.Diff(c.NewIDs, a.TokenIDs) != "" {
			t.Errorf("the next answer: got %+v, %v, want tokens %v", a, err, c.NewIDs)
		}
		var all sync.WaitGroup
		for range 5 {
			all.Go(func() {
				if _, err := m.Chat(ctx, messages, long); !errors.Is(err, gone) && !errors.Is(err, errClosed) {
					t.Errorf("cut off: got error %v, want %v or %v", err, gone, errClosed)
				}
			})
		}
		time.Sleep(10 * time.Millisecond)
		cancel(gone)
		all.Wait()
		if err := m.Close(); err != nil {
			t.Error(err)
		}
		if _, err := m.Chat(context.Background(), messages, long); !errors.Is(err, errClosed) {
			t.Errorf("a closed model: got error %v, want %v", err, errClosed)
		}
	})
}
