package main

import (
	"maps"
	"slices"
	"testing"
)

// TestChoose: names that contain commas are not split.
func TestChoose(t *testing.T) {
	names := []string{"server", "label", "label, a table", "label captions, a server's", "train, mode full"}
	cases := map[string][]string{
		"":                           nil,
		"label":                      {"label"},
		"label, a table":             {"label, a table"},
		"label, a table,label":       {"label", "label, a table"},
		"label captions, a server's": {"label captions, a server's"},
		"server,train, mode full":    {"server", "train, mode full"},
	}
	for only, want := range cases {
		got, err := choose(only, names)
		if found := slices.Sorted(maps.Keys(got)); err != nil || !slices.Equal(found, want) {
			t.Errorf("%q: %q %v", only, found, err)
		}
	}
	for _, only := range []string{"train", "labels", "label, table", "label,mode full"} {
		if got, err := choose(only, names); err == nil {
			t.Errorf("%q: %v", only, got)
		}
	}
}
