//go:build !cloud

package remote

import (
	"context"
	"strings"
	"testing"
)

// TestWithoutDrivers: the error says how to build the program with drivers.
func TestWithoutDrivers(t *testing.T) {
	_, err := Open(context.Background(), "gs://bucket/x")
	if err == nil || !strings.Contains(err.Error(), "make cloud") || !strings.Contains(err.Error(), "gs://bucket/x") {
		t.Errorf("got error %v, want one with %q and %q", err, "make cloud", "gs://bucket/x")
	}
}
