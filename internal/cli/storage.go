package cli

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"assay/internal/exit"
	"assay/internal/remote"
)

const storage, text = "storage", "text"

// TakesStorage declares that flags of c take names on object storage.
func TakesStorage(c *cobra.Command, flags ...string) { annotate(c, flags, storage) }

// TakesText declares that flags of c take any text, which may look like a name on object storage.
func TakesText(c *cobra.Command, flags ...string) { annotate(c, flags, text) }

// checkArguments refuses names on object storage among arguments.
func checkArguments(c *cobra.Command, args []string) (err error) {
	for _, arg := range args {
		err = cmp.Or(err, checkLocal(c, "the argument", arg))
	}
	return err
}

// checkLocal refuses a name on object storage where a local file or folder is required, since that would create a
// folder of that name.
func checkLocal(c *cobra.Command, what, value string) error {
	if !remote.Is(value) {
		return nil
	}
	return exit.Usagef("%s %s: %s wants a file or folder of this machine there; object storage is for tables of score "+
		"batch and label similarities", what, value, c.CommandPath())
}

// checkStorage refuses names on object storage in flags that take none. A program without the drivers refuses all of
// them.
func checkStorage(c *cobra.Command, f *pflag.Flag) (err error) {
	value := f.Value.String()
	_, takes := f.Annotations[storage]
	_, anything := f.Annotations[text]
	switch {
	case anything:
	case !takes:
		for one := range strings.SplitSeq(strings.Trim(value, "[]"), ",") {
			err = cmp.Or(err, checkLocal(c, "--"+f.Name, one))
		}
	case remote.Is(value) && !remote.Built:
		err = exit.Usage(fmt.Errorf("--%s %s: %w", f.Name, value, remote.ErrNotBuilt))
	}
	return err
}
