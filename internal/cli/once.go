package cli

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// lists are the types of flags that may be given several times, besides those that hold a slice.
var lists = []string{"stringToString", "count"}

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

// setOnce makes all flags of a command refuse a second value, but for those that are lists.
func setOnce(c *cobra.Command) {
	for _, flags := range []*pflag.FlagSet{c.Flags(), c.PersistentFlags()} {
		flags.VisitAll(func(f *pflag.Flag) {
			_, slice := f.Value.(pflag.SliceValue)
			_, already := f.Value.(*once)
			if !slice && !already && !slices.Contains(lists, f.Value.Type()) {
				f.Value = &once{Value: f.Value}
			}
		})
	}
}
