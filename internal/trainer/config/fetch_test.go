package config

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"assay/internal/exit"
	"assay/internal/strictyaml"
)

// TestToldOfFetching: an interruption or a transient failure ends loading; an unknown name is a problem of the file.
func TestToldOfFetching(t *testing.T) {
	for _, c := range []struct {
		name    string
		err     error
		problem bool
	}{
		{"interrupted", fmt.Errorf("fetching: %w", exit.ErrInterrupted), false},
		{"no network", errors.New("the Hub does not answer"), false},
		{"no such repository", exit.Usagef("no such repository"), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var into struct {
				Backbone string `yaml:"backbone"`
			}
			d := strictyaml.Decode("run.yaml", []byte("backbone: org/name\n"), &into)
			got := told(d, "backbone", c.err)
			if c.problem && (got != nil || d.Err() == nil || !strings.Contains(d.Err().Error(), c.err.Error())) {
				t.Errorf("got %v and the problems %v, want a problem", got, d.Err())
			}
			if !c.problem && (!errors.Is(got, c.err) || d.Err() != nil) {
				t.Errorf("got %v and the problems %v, want the error itself", got, d.Err())
			}
		})
	}
}
