package models

import (
	"testing"
)

func TestAvailable(t *testing.T) {
	if got := available(
		"MemTotal:       24680000 kB\nMemFree:  1 kB\nMemAvailable:   12340000 kB\n",
	); got != 12340000<<10 {
		t.Error(got)
	}
	if got := mainMemory(); got <= 0 || got > 1<<50 {
		t.Errorf("%d bytes are free", got)
	}
}
