package score

import (
	"fmt"
	"io"
	"net/http"

	"github.com/spf13/cobra"

	"assay/edit"
	"assay/internal/cli"
	"assay/internal/exit"
	"assay/internal/page"
	"assay/internal/view"
)

func init() { register(newViewCommand) }

func newViewCommand() *cobra.Command {
	var f runtimeFlags
	var o view.Options
	var addr string
	c := &cobra.Command{
		Use:   "view FILE",
		Short: "Look through a scored table in a browser",
		Long: `view serves a page with the edits of a table that score batch wrote (or any with the columns source,
edit, instruction and score): sorted by score, label, or the distance between them; filtered by instruction, method,
score or error; one at a time side by side, alternating, and with a heat map. The address of a page encodes the view, so
that it can be shared. --with adds the scores of another judge for the same rows, to sort by their difference.

Nothing is written, and it runs until Ctrl-C.`,
		Example: `  score view scores.jsonl
  score view scores.jsonl --with other.jsonl --scorer backbones/tiny-scorer`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			o.In = args[0]
			return serveTable(c, &f, o, addr)
		},
	}
	f.add(c)
	c.Flags().Lookup("scorer").Usage = "scorer directory, for heat maps"
	c.Flags().StringVar(&o.With, "with", "", "table of another judge's scores: the same rows in the same order")
	c.Flags().StringToStringVar(&o.Columns, "columns", nil, "our column=the table's column, where the names differ")
	c.Flags().StringVar(&addr, "addr", "127.0.0.1:8102", "address of the page; port 0: any free port")
	return c
}

func serveTable(c *cobra.Command, f *runtimeFlags, o view.Options, addr string) error {
	t, err := view.Open(o)
	if err != nil {
		return exit.Usage(err)
	}
	defer t.Close()
	var heat func(r *http.Request, e *edit.Edit) (*edit.Gradient, error)
	if f.scorer != "" {
		s, err := f.open(c)
		if err != nil {
			return err
		}
		defer s.Close()
		heat = func(r *http.Request, e *edit.Edit) (*edit.Gradient, error) {
			all, err := s.Gradients(r.Context(), []*edit.Edit{e})
			if err != nil {
				return nil, err
			}
			return all[0], nil
		}
	}
	l, err := page.Listen(addr)
	if err != nil {
		return exit.Usage(err)
	}
	v := map[string]any{"url": "http://" + l.Addr().String(), "rows": t.Len()}
	err = cli.Print(c, v, func(w io.Writer) { fmt.Fprintf(w, "%d edits: http://%s (Ctrl-C stops)\n", t.Len(), l.Addr()) })
	if err != nil {
		return err
	}
	return page.Serve(c.Context(), l, t.Handler(heat))
}
