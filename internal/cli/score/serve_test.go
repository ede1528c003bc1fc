package score

import (
	"fmt"
	"io"
	"strings"
	"testing"
)

func TestServeDimensions(t *testing.T) {
	scorers := []string{"a=DIR", "runs/b"}
	for flags, want := range map[string]string{
		"":                    "map[a: b:]",
		"quality":             "map[a:quality b:quality]",
		"a=quality":           "map[a:quality b:]",
		"quality b=following": "map[a:quality b:following]",
		"quality following":   "SCORER=DIMENSION",
		"c=quality":           "SCORER=DIMENSION",
		"a=":                  "SCORER=DIMENSION",
	} {
		f := serveFlags{scorers: scorers, dimension: strings.Fields(flags)}
		got, err := f.byScorer("dimension", f.dimension)
		if text := fmt.Sprint(got, err); !strings.Contains(text, want) {
			t.Errorf("%q: %s, want %s", flags, text, want)
		}
	}
}

// TestServeReplicas: so many copies that they could not be meant are refused before any is opened.
func TestServeReplicas(t *testing.T) {
	c := newServeCommand()
	c.SetArgs([]string{"--scorer", "nowhere", "--replicas", "100000"})
	c.SetOut(io.Discard)
	c.SetErr(io.Discard)
	if err := c.Execute(); err == nil || !strings.Contains(err.Error(), "--replicas 100000: at most 64") {
		t.Errorf("100,000 copies: %v", err)
	}
}

// TestServeShortToken: a token that can be guessed is refused before anything is opened.
func TestServeShortToken(t *testing.T) {
	t.Setenv("ASSAY_TOKEN", "x")
	code, _, stderr := run(t, "serve", "--scorer", "nowhere")
	if want := "the bearer token: want a token of at least 8 characters"; code != 2 || !strings.Contains(stderr, want) {
		t.Errorf("got exit code %d, %s; want 2, %s", code, stderr, want)
	}
}
