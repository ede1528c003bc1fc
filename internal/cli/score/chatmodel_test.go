package score

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"assay/chat"
	"assay/internal/exit"
	"assay/internal/table"
)

// TestCapped: the error of a reached cap says how to resume, once.
func TestCapped(t *testing.T) {
	reached := fmt.Errorf("%w: 10 tokens are used", chat.ErrCap)
	for name, err := range map[string]error{
		"of a table":    &table.InterruptedError{Done: 1, Rows: 2, Journal: "out.progress", Err: reached},
		"of a question": reached,
	} {
		t.Run(name, func(t *testing.T) {
			got := capped(err, "")
			if n := strings.Count(got.Error(), "rerun the same command"); n != 1 || !errors.Is(got, exit.ErrInterrupted) {
				t.Errorf("got %q, want an interruption that says once how to resume", got)
			}
		})
	}
}
