package cli

import (
	"fmt"

	"github.com/spf13/cobra"
)

// Noter returns a function that shows on stderr what is about to happen; nil with --json, where the result says it.
func Noter(c *cobra.Command) func(text string) {
	if JSON(c) {
		return nil
	}
	return func(text string) { fmt.Fprintln(c.ErrOrStderr(), text) }
}

// Warner returns a function that prints a warning of the command.
func Warner(c *cobra.Command) func(text string) {
	return func(text string) { fmt.Fprintln(c.ErrOrStderr(), "warning:", text) }
}
