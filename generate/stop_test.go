package generate

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"assay/chat"
)

// TestStopTokens: an id that the model does not have is refused.
func TestStopTokens(t *testing.T) {
	m, err := Open(filepath.Join("..", "backbones", "tiny"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	for _, id := range []int64{-1, int64(m.lm.Vocab()), 1 << 40} {
		_, err := m.Chat(context.Background(), []chat.Message{{Role: "user", Content: []chat.Part{{Text: "hello"}}}},
			chat.Options{MaxNewTokens: 1, StopTokenIDs: []int64{id}})
		if !errors.Is(err, chat.ErrRequest) || !strings.Contains(err.Error(), "stop_token_ids") {
			t.Errorf("%d: error %v", id, err)
		}
	}
}
