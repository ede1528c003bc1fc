package generate

import (
	"errors"
	"strings"
	"testing"

	"assay/chat"
)

// TestRoles: an unknown role, which a template would render, and a cache that is too small are the request's fault.
func TestRoles(t *testing.T) {
	eachFamily(t, func(t *testing.T, r *reference) {
		if !strings.HasSuffix(r.expect, "qwen2_5_vl.safetensors") {
			return
		}
		m := r.open(t, "", Options{Cache: 1000})
		for role, want := range map[string]string{
			"user": "MB of keys and values, the cache has 0.000954", "judge": `role "judge"`, "User": `role "User"`,
		} {
			t.Run(role, func(t *testing.T) {
				messages := []chat.Message{{Role: role, Content: []chat.Part{{Text: "a"}}}}
				_, err := m.Chat(t.Context(), messages, chat.Options{MaxNewTokens: 2})
				if !errors.Is(err, chat.ErrRequest) || !strings.Contains(err.Error(), want) {
					t.Errorf("%s: %v, want %s", role, err, want)
				}
			})
		}
	})
}
