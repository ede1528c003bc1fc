package cli

import (
	"fmt"

	"github.com/spf13/cobra"
)

// Warner returns a function that tells the user of the command about something that does not end it.
func Warner(c *cobra.Command) func(text string) {
	return func(text string) { fmt.Fprintln(c.ErrOrStderr(), "warning:", text) }
}
