package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"assay/internal/exit"
	"assay/internal/shards"
	"assay/internal/table"
)

// ShardFlags are the flags of commands that can split their rows among workers.
type ShardFlags struct {
	shard string
	merge bool
	ref   shards.Ref

	Unchanged bool // --merge does not check that pictures are unchanged

	Why string // where the reasons of failed rows are after --merge; "": in the column error of the output
}

// Add adds the flags to a command.
func (f *ShardFlags) Add(c *cobra.Command) {
	c.Flags().StringVar(&f.shard, "shard", "", "process a part of the rows: i/n, any/n, or auto (from the launcher)")
	c.Flags().BoolVar(&f.merge, "merge", false, "write the table when all shards are done")
	c.Flags().BoolVar(&f.Unchanged, "assume-unchanged", false, "merge without checking whether pictures changed or are "+
		"still there")
	c.MarkFlagsMutuallyExclusive("shard", "merge")
	Needs(c, "merge", "assume-unchanged")
}

// Read parses the flags.
func (f *ShardFlags) Read() (ref shards.Ref, merge bool, err error) {
	if f.ref, err = shards.Parse(f.shard); err != nil {
		err = exit.Usage(fmt.Errorf("--shard: %w", err))
	}
	return f.ref, f.merge, err
}

// Set parses the flags into the options of a table.
func (f *ShardFlags) Set(c *cobra.Command, o *table.Options) (err error) {
	o.Shard, o.Merge, err = f.Read()
	o.Unchanged, o.Told = f.Unchanged, f.Told(c)
	return err
}

// Told returns a function that reports on stderr what a worker waits for or takes over.
func (f *ShardFlags) Told(c *cobra.Command) func(string) {
	return func(text string) { fmt.Fprintf(c.ErrOrStderr(), "shard %v: %s\n", f.ref, text) }
}

// Finish prints the result of a worker. Failed rows in its shards are an error, as in a run without shards.
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
		fmt.Fprintf(w, "shard %v: %d done here with %d rows, %d of them failed; %d done before\n", f.ref, len(r.Shards),
			r.Rows, r.Failed, r.Before)
		fmt.Fprintf(w, "--merge writes %s when all shards are done\n", out)
	})
	if err != nil || r.Failed == 0 {
		return err
	}
	why := f.Why
	why = cmp.Or(why, "the column error of "+out)
	return exit.Reported(fmt.Errorf("%d of %d rows failed; after --merge %s says why", r.Failed, r.Rows, why))
}
