package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"assay/internal/exit"
	"assay/internal/shards"
	"assay/internal/table"
)

// ShardFlags are those of commands whose rows many workers share.
type ShardFlags struct {
	shard string
	merge bool
	ref   shards.Ref

	Unchanged bool // --merge takes rows as they were done

	Why string // where the reasons of failed rows stand after --merge; "": in the column error of the output
}

// Add gives a command the flags.
func (f *ShardFlags) Add(c *cobra.Command) {
	c.Flags().StringVar(&f.shard, "shard", "", "do a part of the rows: i/n, any/n, or auto (as the launcher says)")
	c.Flags().BoolVar(&f.merge, "merge", false, "write the table when all shards are done")
	c.Flags().BoolVar(&f.Unchanged, "assume-unchanged", false, "merge without checking whether pictures changed or are "+
		"still there")
	c.MarkFlagsMutuallyExclusive("shard", "merge")
	Needs(c, "merge", "assume-unchanged")
}

// Read reads them.
func (f *ShardFlags) Read() (ref shards.Ref, merge bool, err error) {
	if f.ref, err = shards.Parse(f.shard); err != nil {
		err = exit.Usage(fmt.Errorf("--shard: %w", err))
	}
	return f.ref, f.merge, err
}

// Set reads the flags into the options of a table.
func (f *ShardFlags) Set(c *cobra.Command, o *table.Options) (err error) {
	o.Shard, o.Merge, err = f.Read()
	o.Unchanged, o.Told = f.Unchanged, f.Told(c)
	return err
}

// Told says on stderr what a worker waits for or takes over.
func (f *ShardFlags) Told(c *cobra.Command) func(string) {
	return func(text string) { fmt.Fprintf(c.ErrOrStderr(), "shard %v: %s\n", f.ref, text) }
}

// Finish prints what a worker did. Rows that failed in its shards are an error, as in a run without shards.
func (f *ShardFlags) Finish(c *cobra.Command, out string, r *shards.Report, err error) error {
	if err != nil && c.Context().Err() != nil && errors.Is(err, context.Canceled) {
		return fmt.Errorf("shard %v of %s: run the same command to resume: %w", f.ref, out, exit.ErrInterrupted)
	}
	if err != nil {
		return err
	}
	v := struct {
		Shard string `json:"shard"`
		Out   string `json:"out"`
		*shards.Report
	}{f.ref.String(), out, r}
	err = Print(c, v, func(w io.Writer) {
		fmt.Fprintf(w, "shard %v: %d done here with %d rows, %d of them failed; %d were done before\n", f.ref, len(r.Shards),
			r.Rows, r.Failed, r.Before)
		fmt.Fprintf(w, "--merge writes %s when all shards are done\n", out)
	})
	if err != nil || r.Failed == 0 {
		return err
	}
	why := f.Why
	if why == "" {
		why = "the column error of " + out
	}
	return exit.Reported(fmt.Errorf("%d of %d rows failed; after --merge %s says why", r.Failed, r.Rows, why))
}
