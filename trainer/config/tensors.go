package config

import (
	"strings"
)

// PlanFile is where a run says what it trains, and on what: its Trained, and what auto came to.
const PlanFile = "plan.json"

// headTensor recognises layers.N.weight and layers.N.bias, and the rows of choices.
func headTensor(name string) bool {
	if rest, ok := strings.CutPrefix(name, "heads."); ok { // of format 2: heads.NAME.layers.N.weight
		if strings.HasSuffix(rest, ".rows") {
			return true
		}
		if i := strings.Index(rest, ".layers."); i >= 0 {
			name = rest[i+1:]
		}
	}
	parts := strings.Split(name, ".")
	return len(parts) == 3 && parts[0] == "layers" && (parts[2] == "weight" || parts[2] == "bias")
}
