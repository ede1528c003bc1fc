// Package modelcard writes the README.md of judges that score import creates from published weights: origin, licence,
// training data, scale, and limits.
package modelcard

import (
	"fmt"
	"strings"

	"assay/internal/atomicfile"
)

// Card describes a judge.
type Card struct {
	Name, Licence, Source string
	Trained               string   // training data
	Scale                 string   // what its numbers mean
	Cannot                []string // what it cannot judge
}

// Write writes the card. score describes the score's range and origin, and used is the Markdown of what the judge was
// built from.
func (c *Card) Write(path, score, used string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\nImported by `score import`: a judge that was not trained here.\n\n", c.Name)
	fmt.Fprintf(&b, "- Origin: %s\n- Licence: %s\n- Trained on: %s\n- Score: %s\n", c.Source, c.Licence, c.Trained, score)
	fmt.Fprintf(&b, "\n## Scale\n\n%s\n\n## What it cannot judge\n\n", c.Scale)
	for _, line := range c.Cannot {
		fmt.Fprintf(&b, "- %s\n", line)
	}
	b.WriteString("\n## What was used\n\n" + used)
	return atomicfile.WriteBytes(path, []byte(b.String()))
}
