package cli

import (
	"encoding/csv"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// asked are the flags that say what is scored, and by what. If one were given twice, both values might seem to count.
// Other settings may be repeated, for example after an alias, and the last one counts.
var asked = []string{"source", "edit", "reference", "instruction", "in", "before", "after", "scorer", "predictions",
	"ratings"}

// once is a flag value that refuses a second, different one.
type once struct {
	pflag.Value
	given *string
}

// Set implements pflag.Value.
func (o *once) Set(text string) error {
	if o.given != nil && *o.given != text {
		return fmt.Errorf("already given as %q: give it once", *o.given)
	}
	o.given = &text
	return o.Value.Set(text)
}

// pairs is a flag value of key=value pairs that refuses a second, different value of a key.
type pairs struct {
	pflag.Value
	given map[string]string
}

// Set implements pflag.Value.
func (p *pairs) Set(text string) error {
	fields, err := csv.NewReader(strings.NewReader(text)).Read()
	if err != nil {
		return p.Value.Set(text) // which returns the error
	}
	for _, field := range fields {
		key, value, _ := strings.Cut(field, "=")
		if before, ok := p.given[key]; ok && before != value {
			return fmt.Errorf("%s is given as %q and as %q: give it once", key, before, value)
		}
		p.given[key] = value
	}
	return p.Value.Set(text)
}

// setOnce wraps the flags of a command in once and pairs.
func setOnce(c *cobra.Command) {
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Value.Type() == "stringToString" {
			f.Value = &pairs{f.Value, map[string]string{}}
		}
		if _, list := f.Value.(pflag.SliceValue); !list && slices.Contains(asked, f.Name) {
			f.Value = &once{Value: f.Value}
		}
	})
}
