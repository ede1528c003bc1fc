package chat

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"assay/internal/store"
)

// echo answers with the text of the first message and counts.
type echo struct {
	asked atomic.Int64
	delay time.Duration
	print string
	fail  error
}

func (e *echo) Chat(ctx context.Context, m []Message, o Options) (*Answer, error) {
	n := e.asked.Add(1)
	time.Sleep(e.delay)
	if e.fail != nil {
		return nil, e.fail
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return &Answer{
		Text: m[0].Content[0].Text + "\xff", TokenIDs: []int64{1, 2}, LogProbs: []float64{-0.1, -1e-300},
		Finish: FinishLength, Usage: Usage{int(n), 2, 3},
	}, nil
}

func (e *echo) Fingerprint() string { return "echo " + e.print }
func (e *echo) Close() error        { return nil }

func keep(t *testing.T, m Model, folder string) *Kept {
	t.Helper()
	s, err := store.Open(folder, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	k, err := Keep(m, s)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// TestKept: the same question is asked once, even by another process; a question that differs in anything is another
// question.
func TestKept(t *testing.T) {
	folder := t.TempDir()
	e := &echo{print: "a"}
	k := keep(t, e, folder)
	first, err := k.Chat(t.Context(), ask("a"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	again, err := keep(t, e, folder).Chat(t.Context(), ask("a"), Options{})
	if err != nil || !cmp.Equal(first, again) {
		t.Errorf("%v, want %v (%v)", again, first, err)
	}
	if e.asked.Load() != 1 || k.Asked().Answers != 1 {
		t.Errorf("got %d questions asked, Asked() = %v, want 1", e.asked.Load(), k.Asked())
	}
	other := gradient(4, 4)
	other.Pix[5]++
	picture := func(w, h int) []Message {
		return []Message{{"user", []Part{{Text: "a"}, {Image: gradient(w, h)}}}}
	}
	requests := []struct {
		m []Message
		o Options
	}{
		{ask("b"), Options{}},
		{[]Message{{"system", ask("a")[0].Content}}, Options{}},
		{[]Message{{"user", []Part{{Text: ""}, {Text: "a"}}}}, Options{}},
		{append(ask("a"), ask("a")...), Options{}},
		{picture(4, 4), Options{}}, {picture(2, 8), Options{}},
		{[]Message{{"user", []Part{{Text: "a"}, {Image: other}}}}, Options{}},
		{ask("a"), Options{MaxNewTokens: 1}}, {ask("a"), Options{Seed: 1}}, {ask("a"), Options{Temperature: pointer(0.0)}},
		{ask("a"), Options{Temperature: pointer(1.0)}}, {ask("a"), Options{TopP: pointer(1.0)}},
		{ask("a"), Options{RepetitionPenalty: pointer(1.0)}}, {ask("a"), Options{TopK: pointer(1)}},
		{ask("a"), Options{Stop: []string{"a"}}}, {ask("a"), Options{StopTokenIDs: []int64{1}}},
		{ask("a"), Options{LogProbs: true}},
	}
	for range 2 {
		for _, r := range requests {
			if _, err := k.Chat(t.Context(), r.m, r.o); err != nil {
				t.Error(err)
			}
		}
		if got := int(e.asked.Load()); got != 1+len(requests) {
			t.Errorf("got %d questions asked, want %d: all are different", got, 1+len(requests))
		}
	}
	keep(t, &echo{print: "b"}, folder).Chat(t.Context(), ask("a"), Options{})
	if k := keep(t, &echo{print: "c"}, folder); k.Asked().Found != 0 {
		t.Errorf("another model: got %d answers found, want none", k.Asked().Found)
	}
}

// TestAskedOnce: many callers with the same question ask once.
func TestAskedOnce(t *testing.T) {
	e := &echo{delay: 20 * time.Millisecond}
	k := keep(t, e, t.TempDir())
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			a, err := k.Chat(t.Context(), ask(fmt.Sprint(i%2)), Options{})
			if err != nil || a.Text != fmt.Sprint(i%2)+"\xff" {
				t.Errorf("question %d: got %v, %v, want %q", i%2, a, err, fmt.Sprint(i%2)+"\xff")
			}
		})
	}
	wg.Wait()
	if e.asked.Load() != 2 || k.Asked() != (Asked{Answers: 2, Found: 62}) {
		t.Errorf("got %d questions asked, Asked() = %v, want 2, and 2 and 62", e.asked.Load(), k.Asked())
	}
}

// TestOtherCallerLeaves: a caller that waits for another caller's request still gets its answer if that caller
// leaves.
func TestOtherCallerLeaves(t *testing.T) {
	e := &echo{delay: 30 * time.Millisecond}
	k := keep(t, e, t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := k.Chat(ctx, ask("a"), Options{}); !errors.Is(err, context.Canceled) {
			t.Errorf("the caller that left: got error %v, want %v", err, context.Canceled)
		}
	})
	time.Sleep(10 * time.Millisecond)
	wg.Go(func() {
		if a, err := k.Chat(t.Context(), ask("a"), Options{}); err != nil || a.Text != "a\xff" {
			t.Errorf("the other caller: got %v, %v, want %q", a, err, "a\xff")
		}
	})
	cancel()
	wg.Wait()
}

// TestCannotKeep: an answer that cannot be stored is returned, because it is paid for; then nothing more is asked.
func TestCannotKeep(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "answers")
	e := &echo{}
	k := keep(t, e, folder)
	if err := os.WriteFile(folder, nil, 0o600); err != nil { // nothing can be created in it
		t.Fatal(err)
	}
	if a, err := k.Chat(t.Context(), ask("a"), Options{}); err != nil || a.Text != "a\xff" {
		t.Errorf("got %v, %v, want %q", a, err, "a\xff")
	}
	_, err := k.Chat(t.Context(), ask("b"), Options{})
	if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), folder) || e.asked.Load() != 1 {
		t.Errorf("got error %v after %d questions, want %v with %q after 1", err, e.asked.Load(), ErrUnavailable, folder)
	}
}

// TestFailuresAreNotKept: an error is not an answer.
func TestFailuresAreNotKept(t *testing.T) {
	e := &echo{fail: errors.New("no")}
	k := keep(t, e, t.TempDir())
	if _, err := k.Chat(t.Context(), ask("a"), Options{}); err == nil {
		t.Errorf("a model that fails: got error %v, want one", err)
	}
	e.fail = nil
	if _, err := k.Chat(t.Context(), ask("a"), Options{}); err != nil || e.asked.Load() != 2 {
		t.Errorf("asked again: got error %v after %d questions, want none after 2", err, e.asked.Load())
	}
}
