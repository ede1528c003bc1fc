package score

import (
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"assay/internal/benchmarks/protocol"
	"assay/internal/benchmarks/report"
	"assay/internal/cli"
	"assay/internal/exit"
)

// finish writes the report and prints the results. Samples that could not be computed make the command fail at the end.
func (f *benchFlags) finish(c *cobra.Command, r *report.Report) error {
	if f.report != "" {
		if err := r.Write(f.report); err != nil {
			return err
		}
	}
	v, err := r.JSON()
	if err == nil {
		err = cli.Print(c, v, func(w io.Writer) { printReport(w, r, f.report) })
	}
	if failed := r.Failed(); err == nil && failed > 0 {
		err = exit.Reported(fmt.Errorf("%d samples could not be computed", failed))
	}
	return err
}

func printReport(w io.Writer, r *report.Report, folder string) {
	for _, fact := range r.Facts {
		fmt.Fprintln(w, fact)
	}
	summary := r.Summary()
	if len(summary.Columns) > 0 {
		summary.Print(w)
	}
	printRemarks(w, r)
	for _, b := range r.Boards() {
		fmt.Fprintln(w)
		b.Summary().Print(w)
		printRemarks(w, b)
	}
	for _, t := range r.Apart() {
		fmt.Fprintf(w, "\n%s\n", t.Title)
		for _, note := range t.Notes {
			fmt.Fprintln(w, "  "+note)
		}
		t.Title = ""
		t.Print(w)
	}
	for _, s := range r.Systems {
		fmt.Fprintln(w)
		if len(r.Systems) > 1 {
			fmt.Fprintf(w, "%s: ", s.Name)
		}
		printResult(w, s.Result)
		for _, t := range s.Result.Agreement {
			fmt.Fprintln(w)
			t.Print(w)
		}
		if len(r.Systems) == 1 {
			printTables(w, s.Result)
		}
	}
	if r.Comparison != nil {
		fmt.Fprintln(w)
		for _, note := range r.Comparison.Notes {
			fmt.Fprintln(w, "note:", note)
		}
		r.Comparison.Table().Print(w)
	}
	if folder != "" {
		fmt.Fprintf(w, "\nreport: %s\n", filepath.Join(folder, "index.html"))
	}
}

// printRemarks prints why there are several columns, and what their marks mean.
func printRemarks(w io.Writer, r *report.Report) {
	for _, remark := range r.Remarks() {
		fmt.Fprintln(w, remark)
	}
}

// printResult prints what a result was computed from, and what the reader must know.
func printResult(w io.Writer, r *protocol.Result) {
	fmt.Fprintf(w, "%d predictions used\n", r.N)
	for _, note := range r.Notes {
		fmt.Fprintln(w, "note:", note)
	}
	if n := len(r.Missing); n > 0 {
		fmt.Fprintf(w, "missing: %d without a prediction: %v\n", n, r.Missing[:min(n, 10)])
	}
	for _, failed := range r.Failed {
		fmt.Fprintln(w, "not computed:", failed)
	}
}

func printTables(w io.Writer, r *protocol.Result) {
	for _, t := range r.Tables {
		fmt.Fprintln(w)
		t.Print(w)
	}
	for _, c := range r.Confusions {
		fmt.Fprintln(w)
		t := c.Table()
		t.Title = c.Title + ": truth \\ predicted"
		t.Print(w)
	}
}
