package train

import (
	"strings"
	"testing"

	"assay/internal/testfile"
)

// TestTerminalSequences: the contents of a configuration or table reach a terminal without control characters.
func TestTerminalSequences(t *testing.T) {
	config := testfile.Write(t, "scorer.yaml", "\"\\e[2Jdata\": x\n")
	_, stdout, stderr := call(t, "--config", config)
	text := stdout + stderr
	if i := strings.IndexAny(text, "\x1b\a\u009b"); i >= 0 {
		t.Errorf("a control character is printed: %q", text[i:min(i+20, len(text))])
	}
	if !strings.Contains(text, `[2Jdata`) {
		t.Errorf("the key is not named: %s", text)
	}
}
