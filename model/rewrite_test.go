package model

import (
	"testing"

	"github.com/goccy/go-yaml"

	"assay/model/digests"
)

// TestWithKeys: keys are replaced in place, removed or added, and every other line is unchanged.
func TestWithKeys(t *testing.T) {
	const text = `# a comment
format: 1
backbone: "../far"  # where it lies
passes:
- name: a
  prompt: |
    two

    paragraphs
digests:
  weights:
    a: b

  backbone: {}
# the end
weights: w # no newline behind`
	set := yaml.MapSlice{
		{Key: "backbone", Value: "."}, {Key: "digests", Value: &digests.Digests{Weights: map[string]string{"m": "1"}}},
		{Key: "weights"}, {Key: "passes"}, {Key: "absent"}, {Key: "calibration", Value: "c.json"},
	}
	const want = `# a comment
format: 1
backbone: .
digests:
  weights:
    m: "1"
# the end
calibration: c.json
`
	got, err := withKeys([]byte(text), set)
	if err != nil || string(got) != want {
		t.Errorf("error %v, got\n%s\nwant\n%s", err, got, want)
	}
}
