package train

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"assay/internal/exit"
	"assay/internal/page"
	"assay/internal/trainer/report"
)

func init() { register(newWatchCommand) }

func newWatchCommand() *cobra.Command {
	var addr string
	c := &cobra.Command{
		Use:   "watch RUN",
		Short: "Show a run while it trains, here and in a browser",
		Long: `watch follows a run directory: it prints a line for each validation and for the newest step, and serves a
page with the curves, which refreshes itself. It ends when training ends. It does not modify the run, which may be on
another machine that writes into a shared folder. At the end of training the page is RUN/report.html, with edits of the
validation rows.`,
		Example: "  train watch runs/first",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if _, err := report.Read(args[0]); err != nil {
				return exit.Usage(err)
			}
			l, err := page.Listen(addr)
			if err != nil {
				return exit.Usage(err)
			}
			fmt.Fprintf(c.OutOrStdout(), "the page: http://%s\n", l.Addr())
			failed := make(chan error, 1)
			go func() { failed <- page.Serve(c.Context(), l, report.Handler(args[0])) }()
			err = report.Watch(c.Context(), args[0], 2*time.Second, c.OutOrStdout())
			if c.Context().Err() != nil { // Ctrl-C: there is no state to save
				return nil
			}
			select {
			case served := <-failed:
				return errors.Join(err, served)
			default:
				return err
			}
		},
	}
	c.Flags().StringVar(&addr, "addr", "127.0.0.1:8101", "address of the page; port 0: any free port")
	return c
}
