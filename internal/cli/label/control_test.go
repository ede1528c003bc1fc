package label

import (
	"strings"
	"testing"

	"assay/internal/testfile"
)

// TestTerminalSequences: names of columns, and reasons that quote a row, reach a terminal without control characters.
func TestTerminalSequences(t *testing.T) {
	table := testfile.Write(t, "edits.jsonl",
		`{"id": "a\u001b[2J", "source": "\u009bs.png", "edit": "\u001b]0;x\u0007.png", "instruction": "x", `+
			`"\u001b[31mcolumn": 1}`+"\n")
	config := testfile.Write(t, "label.yaml", "out: out\nsources: [{layout: table, path: "+table+"}]\n")
	_, stdout, stderr := label(t, "--config", config, "--check")
	text := stdout + stderr
	if i := strings.IndexAny(text, "\x1b\a\u009b"); i >= 0 {
		t.Errorf("a control character is printed: %q", text[i:min(i+20, len(text))])
	}
	if !strings.Contains(text, `\x1b[31mcolumn`) {
		t.Errorf("the column is not named: %s", text)
	}
}
