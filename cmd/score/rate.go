package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"assay/data"
	"assay/internal/cli"
)

// rateRows finds the score01 of every row of a table: with --scorer by scoring them, without from the column score01 that
// score batch has written.
func rateRows(c *cobra.Command, f *runtimeFlags, t *data.Table) (map[int]outcome, error) {
	done := map[int]outcome{}
	if f.scorer != "" {
		s, err := f.open()
		if err != nil {
			return nil, err
		}
		defer s.Close()
		bar := cli.NewProgress(c, "scoring", int64(t.Len()), "edits")
		defer bar.Close()
		return done, scoreRows(c.Context(), s, t, done, func(o []outcome) error {
			for _, v := range o {
				done[v.Row] = v
			}
			bar.Add(int64(len(o)), "")
			return nil
		})
	}
	for i := range t.Len() {
		o := outcome{Row: i}
		rec, err := t.Record(i)
		if err == nil {
			v, ok := rec.Get("score01")
			if !ok {
				return nil, cli.Usagef("%s has no column score01: name a --scorer, or score it first with score batch", t.Path())
			}
			var n *float64
			if n, err = data.Number(v); err == nil && n == nil {
				err = fmt.Errorf("no score")
				if why, ok := rec.Get("error"); ok {
					if text, e := data.Text(why); e == nil && text != "" {
						err = fmt.Errorf("%s", text)
					}
				}
			} else if err == nil {
				o.Score01 = *n
			}
		}
		if err != nil {
			o.Error = err.Error()
		}
		done[i] = o
	}
	return done, nil
}
