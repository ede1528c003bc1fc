package trainer

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestLongWarmup: a run that ends during its warm-up warns, and a group's warm-up and decay must also fit.
func TestLongWarmup(t *testing.T) {
	said := func(steps int, groups string) (text string, err error) {
		path := writeRun(t, 30, fmt.Sprintf("steps: %d\n", steps))
		change := strings.NewReplacer("warmup: 0.1", "warmup: 5", "{lr: 0.01}", "{lr: 0.01"+groups+"}")
		config := change.Replace(mustRead(t, path))
		if err := os.WriteFile(path, []byte(config), 0o666); err != nil {
			t.Fatal(err)
		}
		_, err = Train(context.Background(), Options{Config: load(t, path), Factory: newFake().factory,
			Warn: func(s string) { text += s }})
		return text, err
	}
	if text, err := said(2, ""); err != nil || !strings.Contains(text, "schedule: the warm-up has 5 steps, the run 2") {
		t.Errorf("it said %q, %v", text, err)
	}
	if text, err := said(5, ""); err != nil || text != "" {
		t.Errorf("it said %q, %v", text, err)
	}
	const want = "optimizer.groups.head.schedule: warmup 3 and decay 3 are more than the 5 steps"
	_, err := said(5, ", groups: {head: {schedule: {kind: wsd, warmup: 3, decay: 3}}}")
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
}
