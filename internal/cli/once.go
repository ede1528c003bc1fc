package cli

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// asked are the flags that say what is scored, and by what: who gives one twice may think that both count. A setting
// may be given again, as behind an alias, and the last one holds.
var asked = []string{"source", "edit", "reference", "instruction", "in", "before", "after", "scorer"}

// once is a flag's value that refuses a second one that differs, of which the last would silently win.
type once struct {
	pflag.Value
	given *string
}

// Set implements pflag.Value.
func (o *once) Set(text string) error {
	if o.given != nil && *o.given != text {
		return fmt.Errorf("it was given before, as %q: give it once", *o.given)
	}
	o.given = &text
	return o.Value.Set(text)
}

// setOnce makes flags of a command that say what is scored refuse a second value, but for those that are lists.
func setOnce(c *cobra.Command) {
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if _, list := f.Value.(pflag.SliceValue); !list && slices.Contains(asked, f.Name) {
			f.Value = &once{Value: f.Value}
		}
	})
}
