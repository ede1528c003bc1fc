package losses

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

func TestCheck(t *testing.T) {
	half := -0.5
	for want, s := range map[string]Spec{
		"":                                  {Kind: "bradley_terry"},
		"kind: want one of l1":              {Kind: "l3"},
		"scale: a loss of kind l1":          {Kind: "l1", Scale: 2},
		"weight: want at least 0":           {Kind: "l1", Weight: &half},
		"votes: want weight or soft":        {Kind: "bradley_terry", Votes: "all"},
		"votes: soft needs the ratings":     {Kind: "l1", Votes: "soft", Dimension: "quality"},
		"theta: want more than 1":           {Kind: "rao_kupper", Theta: 1},
		"nu: want more than 0":              {Kind: "davidson", Nu: -1},
		"values: want the labels":           {Kind: "ordinal", Values: []float64{1, 0}},
		"cuts: want fixed":                  {Kind: "ordinal", Cuts: "free"},
		"cuts: a loss of kind mse":          {Kind: "mse", Cuts: "learned"},
		"ties: want breslow":                {Kind: "plackett_luce", Ties: "efron"},
		"dimension: text has no dimensions": {Kind: "text", Dimension: "quality"},
		"draws: want at least 1":            {Kind: "gaussian_draws", Draws: -1},
		"center: a loss of kind huber":      {Kind: "huber", Center: &half},
	} {
		t.Run(want, func(t *testing.T) {
			problems := s.Check()
			got := fmt.Sprint(problems)
			key, text, _ := strings.Cut(want, ": ")
			switch {
			case want == "" && len(problems) > 0:
				t.Errorf("%+v: got problem %s, want none", s, got)
			case want != "" && (len(problems) != 1 || problems[0].Key != key || !strings.HasPrefix(problems[0].Text, text)):
				t.Errorf("%+v: %s, want %s", s, got, want)
			}
		})
	}
	s := Spec{Kind: "gaussian_draws"}
	if s.Check(); s.Scale != 10 || s.Draws != 1000 || s.Factor() != 1 {
		t.Errorf("defaults: got %+v, want scale 10, 1000 draws, factor 1", s)
	}
}

// TestOptionsAreKnown: every option that a row names is an option of an entry.
func TestOptionsAreKnown(t *testing.T) {
	for _, r := range Table() {
		for _, key := range r.Options {
			if !slices.ContainsFunc(options, func(o option) bool { return o.key == key }) {
				t.Errorf("%s: got option %s, want one that an entry has", r.Kind, key)
			}
		}
		if r.Formula == "" || r.Source == "" {
			t.Errorf("%s: got formula %q and source %q, want both", r.Kind, r.Formula, r.Source)
		}
	}
}

func TestTiesRefused(t *testing.T) {
	s := Spec{Kind: "plackett_luce", Ties: "refuse"}
	s.Check()
	place := func(e int) int { return e }
	one := []Item{{Edits: []int{0, 1}, Ranks: []int{1, 2}}}
	if _, _, err := Feeds(0, s, Head{}, one, 2, place, 0); err != nil {
		t.Error(err)
	}
	one[0].Ranks[1] = 1
	if _, _, err := Feeds(0, s, Head{}, one, 2, place, 0); err == nil || !strings.Contains(err.Error(), "the same rank") {
		t.Errorf("Feeds: got error %v, want one with %q", err, "the same rank")
	}
}

// TestDocumented compares the table in docs/training-keys.md with this one.
func TestDocumented(t *testing.T) {
	raw, err := os.ReadFile("../docs/training-keys.md")
	if err != nil {
		t.Fatal(err)
	}
	code := func(words ...string) string {
		if len(words) == 0 {
			return ""
		}
		return "`" + strings.Join(words, "`, `") + "`"
	}
	for _, r := range Table() {
		line := fmt.Sprintf("| `%s` | %s | %s | %s | %s | %s |\n", r.Kind, r.Over, r.Outputs, code(r.Options...),
			strings.ReplaceAll(r.Formula, "|", `\|`), r.Source)
		if !strings.Contains(string(raw), line) {
			t.Errorf("docs/training-keys.md: got no such line, want\n%s", line)
		}
	}
}
