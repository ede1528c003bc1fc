package score

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// evil is a table text that a terminal would interpret: ESC sequences, C1 codes, right-to-left overrides.
const evil = "a\x1b[2J\x1b]0;x\a\u009b31m\u202eb"

// TestTerminalSequences: names and texts of tables reach a terminal without control characters in all commands, and a
// program unchanged.
func TestTerminalSequences(t *testing.T) {
	dir := t.TempDir()
	table := filepath.Join(dir, "edits.jsonl")
	var b strings.Builder
	for i, score := range []any{7.5, nil, 2.5} {
		row := map[string]any{"id": evil, "source": evil + "/source.png", "edit": evil + ".png", "instruction": "do " + evil,
			"score": score, "score01": nil, "error": "cannot open " + evil, "split": evil}
		if s, ok := score.(float64); ok {
			row["score01"], row["error"], row["id"] = s/10, nil, i
		}
		raw, err := json.Marshal(row)
		if err != nil {
			t.Fatal(err)
		}
		b.Write(append(raw, '\n'))
	}
	if err := os.WriteFile(table, []byte(b.String()), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"best", "--in", table},
		{"best", "--in", filepath.Join(dir, evil)},
		{"pair", "--scorer", evil, "--edit", "x.png", "--instruction", evil},
		{"bench", evil},
		{"batch", "--scorer", evil, "--in", table, "--out", filepath.Join(dir, "o.jsonl")},
	} {
		_, stdout, stderr := run(t, args...)
		text := stdout + stderr
		if i := strings.IndexAny(text, "\x1b\a\u009b\u202e"); i >= 0 {
			t.Errorf("%v prints %q", args, text[i:min(i+20, len(text))])
		}
		if !strings.Contains(text, `a\x1b[2J`) {
			t.Errorf("%v does not name what is wrong: %s", args, text)
		}
	}
	code, v := command(t, "best", "--in", table)
	if failed, ok := v["failed"].([]any); code != 1 || !ok || failed[0].(map[string]any)["id"] != evil {
		t.Errorf("--json: exit code %d, got %q, want the id %q", code, v["failed"], evil)
	}
}
