package main

import (
	"fmt"
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
		got, err := f.dimensions()
		if text := fmt.Sprint(got, err); !strings.Contains(text, want) {
			t.Errorf("%q: %s, want %s", flags, text, want)
		}
	}
}
