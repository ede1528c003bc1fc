package label

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"assay/internal/cli"
	"assay/internal/exit"
	"assay/internal/labeling"
)

// runCheck checks the data sets of a configuration.
func runCheck(c *cobra.Command, config string, rows int) error {
	if config == "" {
		return exit.Usagef("--config is needed: a YAML file; see docs/label.md")
	}
	if rows < 1 {
		return exit.Usagef("--check-rows must be at least 1, not %d", rows)
	}
	cfg, err := labeling.Load(config)
	if err != nil {
		return exit.Usage(err)
	}
	report, err := labeling.Check(c.Context(), cfg, rows)
	if err != nil {
		return err
	}
	if err := cli.Print(c, report, func(w io.Writer) { printCheck(w, report) }); err != nil || report.OK {
		return err
	}
	return exit.Usage(exit.Reported(fmt.Errorf("%s: %w", config, report.Err())))
}

func printCheck(w io.Writer, r *labeling.CheckReport) {
	fmt.Fprintf(w, "profile %s, CLIP-D %s\n", r.Profile, r.ClipD)
	for _, s := range r.Sources {
		fmt.Fprintf(w, "\n%s (%s)\n", s.Name, s.Layout)
		if s.Error != "" {
			fmt.Fprintf(w, "  cannot be opened: %s\n", s.Error)
			continue
		}
		fmt.Fprintf(w, "  %d samples, %d read: %d outputs, %d samples left out on purpose, %d bad\n", s.Samples, s.Read,
			s.Outputs, s.Left, s.Bad)
		for _, reason := range s.Reasons {
			fmt.Fprintf(w, "    bad: %s\n", reason)
		}
		var unused, missing []string
		for _, u := range s.Columns {
			switch {
			case u.Field == "":
				unused = append(unused, u.Column)
			case u.Column == "":
				missing = append(missing, u.Field)
			default:
				line := fmt.Sprintf("  %-15s column %s", u.Field, u.Column)
				if u.Mapped {
					line += " (as configured)"
				}
				if n := s.Nulls[u.Field]; n > 0 {
					line += fmt.Sprintf(", null in %d of %d", n, s.Read)
				}
				fmt.Fprintln(w, line)
			}
		}
		for _, list := range []struct {
			what  string
			names []string
		}{{"without a column", missing}, {"columns that are not used", unused}} {
			if list.names != nil {
				fmt.Fprintf(w, "  %s: %s\n", list.what, strings.Join(list.names, ", "))
			}
		}
		for _, list := range []struct {
			what   string
			counts map[string]int
		}{{"pictures", s.Pictures}, {"similarities that came with the data", s.Known}, {"undefined", s.Not}} {
			var counts []string
			for _, name := range slices.Sorted(maps.Keys(list.counts)) {
				counts = append(counts, fmt.Sprintf("%s %d", name, list.counts[name]))
			}
			if counts != nil {
				fmt.Fprintf(w, "  %s: %s\n", list.what, strings.Join(counts, ", "))
			}
		}
	}
	for _, problem := range r.Problems {
		fmt.Fprintf(w, "\nproblem: %s\n", problem)
	}
	for _, mix := range r.Mixes {
		fmt.Fprintf(w, "\nwarning: %s\n", mix)
	}
}
