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

// TakesStorage declares that flags of c accept object storage URLs.
func TakesStorage(c *cobra.Command, flags ...string) { annotate(c, flags, storage) }

// TakesText declares that flags of c accept any text, even if it looks like an object storage URL.
func TakesText(c *cobra.Command, flags ...string) { annotate(c, flags, text) }

// checkArguments refuses object storage URLs as arguments.
func checkArguments(c *cobra.Command, args []string) (err error) {
	for _, arg := range args {
		err = cmp.Or(err, checkLocal(c, "the argument", arg))
	}
	return err
}

// checkLocal refuses an object storage URL if a local file or folder is required, since a folder with that name would
// be created.
func checkLocal(c *cobra.Command, what, value string) error {
	if !remote.Is(value) {
		return nil
	}
	return exit.Usagef("%s %s: %s needs a local file or folder there; object storage is for tables of score batch and "+
		"label similarities", what, value, c.CommandPath())
}

// checkStorage refuses object storage URLs in flags that do not accept them. A build without the drivers refuses all
// of them.
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
