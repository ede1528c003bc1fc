package cli

import (
	"fmt"

	"github.com/spf13/cobra"
)

// Warner returns a function that prints a warning of the command.
func Warner(c *cobra.Command) func(text string) {
	return func(text string) { fmt.Fprintln(c.ErrOrStderr(), "warning:", text) }
}
