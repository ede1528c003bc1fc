package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"sync"

	"github.com/spf13/cobra"

	"assay/data"
	"assay/internal/atomicfile"
	"assay/internal/cli"
	"assay/internal/journal"
	"assay/model"
	"assay/store"
)

func init() { register(newBatchCommand) }

// added are the columns that scoring adds; they replace columns of the same names.
var added = []data.Column{{Name: "score", Kind: data.KindNumber}, {Name: "score01", Kind: data.KindNumber}, {Name: "error", Kind: data.KindText}}

type batchResult struct {
	Out    string `json:"out"`
	Rows   int    `json:"rows"`
	Scored int    `json:"scored"`
	Failed int    `json:"failed"`
	Pairs  int    `json:"pairs,omitempty"`
}

func newBatchCommand() *cobra.Command {
	var f runtimeFlags
	var in, out string
	var columns map[string]string
	var pairs pairFlags
	c := &cobra.Command{
		Use:   "batch --scorer DIR --in FILE --out FILE",
		Short: "Score every edit of a table",
		Long: `batch reads a table (JSONL, CSV or Parquet) with the columns source, edit and instruction, and writes the same rows in
the same order with score (on the scorer's range), score01 and error added (a .jsonl or .parquet file). A row that cannot be
scored gets an error and no number; the others go on, and the exit code is 1 at the end.

Paths of pictures are relative to the input's folder. Results are kept in OUT.progress while it runs: after Ctrl-C (exit code
3) or a crash the same command goes on where it was.`,
		Example: `  score batch --scorer backbones/tiny-scorer --in build/demo/exam/edits.jsonl --out scores.jsonl
  score batch --scorer DIR --in edits.parquet --out scores.parquet --columns source=input_image,edit=output_image`,
		RunE: func(c *cobra.Command, _ []string) error {
			if in == "" || out == "" {
				return cli.Usagef("--in and --out are needed: tables (.jsonl, .csv or .parquet)")
			}
			s, err := f.open()
			if err != nil {
				return err
			}
			defer s.Close()
			r, err := scoreBatch(c, s, in, out, columns, pairs)
			if err != nil {
				return err
			}
			words := func(w io.Writer) {
				fmt.Fprintf(w, "%d of %d rows scored, written to %s\n", r.Scored, r.Rows, r.Out)
				if pairs.out != "" {
					fmt.Fprintf(w, "%d preferences written to %s\n", r.Pairs, pairs.out)
				}
			}
			if err := cli.Print(c, r, words); err != nil || r.Failed == 0 {
				return err
			}
			return cli.Reported(fmt.Errorf("%d of %d rows could not be scored; the column error of %s says why", r.Failed, r.Rows, out))
		},
	}
	f.add(c)
	c.Flags().StringVar(&in, "in", "", "table to read")
	c.Flags().StringVar(&out, "out", "", "table to write")
	c.Flags().StringToStringVar(&columns, "columns", nil, "our column=the table's, for other names")
	c.Flags().StringVar(&pairs.out, "pairs", "", "table of preferences to write, too: chosen and rejected edits of the same source and instruction")
	c.Flags().Float64Var(&pairs.margin, "margin", 0, "least difference of the scores (0 to 10) of a preference")
	return c
}

// pairFlags ask for preferences.
type pairFlags struct {
	out    string
	margin float64
}

// outcome of one row: a score or an error.
type outcome struct {
	Row     int     `json:"row"`
	Of      string  `json:"of"` // digest of the instruction and of the content of the pictures
	Score01 float64 `json:"score01"`
	Error   string  `json:"error,omitempty"`
}

func scoreBatch(c *cobra.Command, s *model.Scorer, in, out string, columns map[string]string, pairs pairFlags) (*batchResult, error) {
	format, err := data.FormatOf(out)
	if err != nil {
		return nil, cli.Usage(err)
	}
	if pairs.out != "" {
		if _, err := data.FormatOf(pairs.out); err != nil {
			return nil, cli.Usage(err)
		}
	}
	t, err := data.OpenTable(in, data.WithColumns(columns), data.WithOnly("source", "edit", "instruction"))
	if err != nil {
		return nil, err
	}
	defer t.Close()
	j, done, err := openJournal(out+".progress", t, s)
	if err != nil {
		return nil, err
	}
	bar := cli.NewProgress(c, "scoring", int64(t.Len()), "edits")
	bar.Add(int64(len(done)), "")
	err = scoreRows(c.Context(), s, t, done, func(o []outcome) error {
		for _, v := range o {
			done[v.Row] = v
		}
		bar.Add(int64(len(o)), "")
		return j.Write(o...)
	})
	bar.Close()
	if e := j.Close(); err == nil {
		err = e
	}
	if errors.Is(err, context.Canceled) {
		return nil, fmt.Errorf("%d of %d rows are kept in %s.progress; the same command goes on: %w", len(done), t.Len(), out, cli.ErrInterrupted)
	}
	if err != nil {
		return nil, err
	}
	r, err := writeScores(t, out, format, s.Config(), done)
	if err != nil {
		return nil, err
	}
	if pairs.out != "" {
		if r.Pairs, err = writePreferences(t, done, pairs.out, pairs.margin); err != nil {
			return nil, err
		}
	}
	return r, os.Remove(out + ".progress")
}

func writeScores(t *data.Table, out string, format data.Format, cfg model.ScorerConfig, done map[int]outcome) (*batchResult, error) {
	r := &batchResult{Out: out, Rows: t.Len()}
	err := atomicfile.Write(out, func(w io.Writer) error {
		tw, err := t.NewWriter(w, format, added...)
		if err != nil {
			return err
		}
		for i := range t.Len() {
			rec, err := t.Record(i)
			o := done[i]
			if err != nil { // the row cannot be read at all: its place is kept
				rec = data.Record{}
			}
			rec.Set("score", nil)
			rec.Set("score01", nil)
			rec.Set("error", nil)
			if o.Error != "" {
				r.Failed++
				rec.Set("error", o.Error)
			} else {
				r.Scored++
				rec.Set("score", cfg.Range(o.Score01))
				rec.Set("score01", o.Score01)
			}
			if err := tw.Write(rec); err != nil {
				return err
			}
		}
		return tw.Close()
	})
	return r, err
}

// Bounds of what is prepared ahead: rows, and float values of their pixels.
const (
	chunkRows   = 256
	chunkPixels = 32 << 20
)

// scoreRows scores the rows that are not done, in chunks: while one is on the runtime the next one is prepared.
func scoreRows(ctx context.Context, s *model.Scorer, t *data.Table, done map[int]outcome, report func([]outcome) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	chunks := make(chan []prepared, 1)
	go func() {
		defer close(chunks)
		prepareRows(ctx, s, t, done, chunks)
	}()
	for chunk := range chunks {
		o, err := scoreChunk(ctx, s, chunk)
		if err != nil {
			return err
		}
		if err := report(o); err != nil {
			return err
		}
	}
	return ctx.Err()
}

type prepared struct {
	row    int
	of     string
	sample *model.Sample
	err    error
}

func prepareRows(ctx context.Context, s *model.Scorer, t *data.Table, done map[int]outcome, chunks chan<- []prepared) {
	var todo []int
	for i := range t.Len() {
		if _, ok := done[i]; !ok {
			todo = append(todo, i)
		}
	}
	workers := runtime.NumCPU()
	var chunk []prepared
	pixels := 0
	for len(todo) > 0 && ctx.Err() == nil {
		part := make([]prepared, min(workers, len(todo)))
		var wg sync.WaitGroup
		for k := range part {
			wg.Go(func() { part[k] = prepareRow(s, t, todo[k]) })
		}
		wg.Wait()
		todo = todo[len(part):]
		chunk = append(chunk, part...)
		for _, p := range part {
			if p.sample != nil {
				for _, q := range p.sample.Pictures {
					pixels += len(q.Pixels)
				}
			}
		}
		if len(chunk) >= chunkRows || pixels >= chunkPixels || len(todo) == 0 {
			select {
			case chunks <- chunk:
			case <-ctx.Done():
				return
			}
			chunk, pixels = nil, 0
		}
	}
}

func prepareRow(s *model.Scorer, t *data.Table, i int) prepared {
	row, err := t.Read(i)
	p := prepared{row: i, of: contentOf(t.Folder(), &row, err), err: err}
	if err != nil {
		return p
	}
	open := func(what string, m data.Image) *data.Picture {
		if p.err != nil {
			return nil
		}
		pic, err := m.Open(t.Folder(), data.Limits{})
		if err != nil {
			p.err = fmt.Errorf("%s: %w", what, err)
		}
		return pic
	}
	source, edit := open("source", row.Source), open("edit", row.Edit)
	if p.err == nil {
		p.sample, p.err = s.Prepare(model.Pair{Source: source, Edit: edit, Instruction: row.Instruction})
	}
	return p
}

func scoreChunk(ctx context.Context, s *model.Scorer, chunk []prepared) ([]outcome, error) {
	out := make([]outcome, len(chunk))
	var samples []*model.Sample
	var at []int
	for i, p := range chunk {
		out[i].Row, out[i].Of = p.row, p.of
		if p.err != nil {
			out[i].Error = p.err.Error()
			continue
		}
		samples, at = append(samples, p.sample), append(at, i)
	}
	scores, errs, err := scoreSamples(ctx, s, samples)
	if err != nil {
		return nil, err
	}
	for k, i := range at {
		if errs[k] != nil {
			out[i].Error = errs[k].Error()
			continue
		}
		out[i].Score01 = scores[k]
	}
	return out, nil
}

type sampleScorer interface {
	Score(context.Context, []*model.Sample) ([]float64, error)
}

// scoreSamples scores all samples at once or, where that fails, one by one: a sample that the runtime cannot do (for want of
// memory, or because its score is no number) has an error of its own. If none can be done, that is not the rows' fault.
func scoreSamples(ctx context.Context, s sampleScorer, samples []*model.Sample) ([]float64, []error, error) {
	errs := make([]error, len(samples))
	scores, err := s.Score(ctx, samples)
	if err == nil || ctx.Err() != nil {
		return scores, errs, err
	}
	scores = make([]float64, len(samples))
	good := 0
	for i := range samples {
		one, e := s.Score(ctx, samples[i:i+1])
		switch {
		case ctx.Err() != nil:
			return nil, nil, ctx.Err()
		case e != nil:
			errs[i] = e
		default:
			scores[i], good = one[0], good+1
		}
	}
	if good == 0 && len(samples) > 1 {
		return nil, nil, err
	}
	return scores, errs, nil
}

// contentOf identifies what a row's score depends on besides the scorer; err is why it cannot be read.
func contentOf(folder string, row *data.Row, err error) string {
	parts := []string{fmt.Sprint(err), row.Instruction}
	for _, m := range []data.Image{row.Source, row.Edit} {
		k, err := store.Content(folder, m)
		parts = append(parts, fmt.Sprint(k, err))
	}
	return store.KeyOf(parts...).String()
}

// journalHead says what the outcomes of a journal belong to; each says itself what it is of.
type journalHead struct {
	In     string `json:"in"`
	Rows   int    `json:"rows"`
	Scorer string `json:"scorer"`
}

// openJournal opens the journal of a batch and returns the outcomes that it holds already, by row.
func openJournal(path string, t *data.Table, s *model.Scorer) (*journal.Journal[outcome], map[int]outcome, error) {
	in, err := filepath.Abs(t.Path())
	if err != nil {
		return nil, nil, err
	}
	print, err := s.Fingerprint()
	if err != nil {
		return nil, nil, err
	}
	j, old, err := journal.Open[outcome](path, journalHead{in, t.Len(), print})
	done := make(map[int]outcome, len(old))
	for _, o := range old {
		row, err := t.Read(o.Row)
		if contentOf(t.Folder(), &row, err) == o.Of { // else it was changed since
			done[o.Row] = o
		}
	}
	return j, done, err
}
