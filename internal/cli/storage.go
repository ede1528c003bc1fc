package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"assay/internal/exit"
	"assay/internal/remote"
)

const storage, text = "storage", "text"

// TakesStorage declares that flags of c take names on object storage.
func TakesStorage(c *cobra.Command, flags ...string) {
	for _, name := range flags {
		annotate(c.Flags().Lookup(name), storage)
	}
}

// TakesText declares that flags of c take any text, which may look like a name on object storage.
func TakesText(c *cobra.Command, flags ...string) {
	for _, name := range flags {
		annotate(c.Flags().Lookup(name), text)
	}
}

// checkStorage refuses names on object storage where a local file or folder is required, since they would create a
// folder of that name. A program without the drivers refuses all of them.
func checkStorage(c *cobra.Command, args []string) (err error) {
	refuse := func(what, value string) {
		if err == nil && remote.Is(value) {
			err = exit.Usagef("%s %s: %s wants a file or folder of this machine there; object storage is for tables of "+
				"score batch and label similarities", what, value, c.CommandPath())
		}
	}
	for _, arg := range args {
		refuse("the argument", arg)
	}
	c.Flags().Visit(func(f *pflag.Flag) {
		value := f.Value.String()
		_, takes := f.Annotations[storage]
		_, anything := f.Annotations[text]
		switch {
		case anything:
		case !takes:
			for one := range strings.SplitSeq(strings.Trim(value, "[]"), ",") {
				refuse("--"+f.Name, one)
			}
		case err == nil && remote.Is(value) && !remote.Built:
			err = exit.Usage(fmt.Errorf("--%s %s: %w", f.Name, value, remote.ErrNotBuilt))
		}
	})
	return err
}
