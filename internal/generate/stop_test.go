package generate

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"assay/chat"
)

// TestStopTokens: an id that the model does not have is refused.
func TestStopTokens(t *testing.T) {
	m, err := Open(filepath.Join("..", "..", "backbones", "tiny"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	for _, id := range []int64{-1, int64(m.lm.Vocab()), 1 << 40} {
		t.Run(fmt.Sprint(id), func(t *testing.T) {
			_, err := m.Chat(context.Background(), []chat.Message{{Role: "user", Content: []chat.Part{{Text: "hello"}}}},
				chat.Options{MaxNewTokens: 1, StopTokenIDs: []int64{id}})
			if !errors.Is(err, chat.ErrRequest) || !strings.Contains(err.Error(), "stop_token_ids") {
				t.Errorf("%d: got error %v, want one with %q", id, err, "stop_token_ids")
			}
		})
	}
}

// TestContextEnds: the finish reason distinguishes an answer that the model's context cuts off from one that its own
// limit ends.
func TestContextEnds(t *testing.T) {
	m, err := Open(filepath.Join("..", "..", "backbones", "tiny"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	hot := 30.0 // no token is likely, least of all the end
	ask := func(text string, most int) *chat.Answer {
		a, err := m.Chat(t.Context(), []chat.Message{{Role: "user", Content: []chat.Part{{Text: text}}}},
			chat.Options{MaxNewTokens: most, Temperature: &hot, Seed: 3})
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	text := strings.Repeat("x", 500)
	room := m.lm.MaxPositions() - ask(text, 1).Usage.Prompt
	text += strings.Repeat("?a", (room-4)/2)
	a := ask(text, 1)
	if room = m.lm.MaxPositions() - a.Usage.Prompt; room < 2 || a.Finish != chat.FinishLength {
		t.Fatalf("got room for %d tokens, one of them ended with %s, want at least 2 and %s", room, a.Finish,
			chat.FinishLength)
	}
	if a = ask(text, room); a.Usage.Completion != room || a.Finish != chat.FinishLength {
		t.Errorf("got %d tokens, ended with %s, want %d and %s", a.Usage.Completion, a.Finish, room, chat.FinishLength)
	}
	if a = ask(text, room+1); a.Usage.Completion != room || a.Finish != chat.FinishContext {
		t.Errorf("got %d tokens, ended with %s, want %d of %d and %s", a.Usage.Completion, a.Finish, room, room+1,
			chat.FinishContext)
	}
}
