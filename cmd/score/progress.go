package main

import (
	"github.com/spf13/cobra"

	"assay/internal/cli"
)

// progress shows how much of something is done, as packages report it. The display begins with the first report.
type progress struct {
	c          *cobra.Command
	what, unit string

	bar  *cli.Progress
	done int
}

// set says that so much of total is done. total is -1 where it is unknown.
func (p *progress) set(done, total int) {
	if p.bar == nil {
		p.bar = cli.NewProgress(p.c, p.what, int64(total), p.unit)
	}
	p.bar.Add(int64(done-p.done), "")
	p.done = done
}

func (p *progress) close() { p.bar.Close() }
