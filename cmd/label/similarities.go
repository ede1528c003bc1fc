package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"assay/data"
	"assay/encoders"
	"assay/heuristics"
	"assay/internal/atomicfile"
	"assay/internal/cli"
	"assay/internal/journal"
	"assay/store"
)

func init() { app.Register(newSimilarities) }

// measuredColumns are the columns that similarities adds; they replace columns of the same names.
var measuredColumns = []data.Column{{Name: "clip_d", Kind: data.KindNumber}, {Name: "clip_i", Kind: data.KindNumber}, {Name: "dino_i", Kind: data.KindNumber},
	{Name: "clip_t", Kind: data.KindNumber}, {Name: "profile", Kind: data.KindText}, {Name: "error", Kind: data.KindText}}

// measuredProfile is the one whose CLIP-D encoders.Measurer computes.
var measuredProfile = heuristics.Profiles[heuristics.ProfileAssay].ID()

// similarityRun is one run of the command.
type similarityRun struct {
	clip, dino, in, out, cache string
	cacheMiB                   int64
	options                    encoders.Options
	columns                    map[string]string
}

func newSimilarities() *cobra.Command {
	var r similarityRun
	c := &cobra.Command{
		Use:   "similarities --clip DIR --dino DIR --in FILE --out FILE",
		Short: "Measure CLIP and DINOv2 similarities of the edits of a table",
		Long: `similarities reads a table (JSONL, CSV or Parquet) with the columns source and edit and, where they are known, target,
source_caption and target_caption, and writes the same rows with

  clip_d   direction: cosine of edit - source and target_caption - source_caption, of embeddings of length 1
  clip_i   cosine of edit and target
  dino_i   the same with DINOv2
  clip_t   cosine of edit and target_caption
  profile  the labelling profile whose clip_d this is: label compares it with its own

A number is null where an ingredient is missing, or where it is not defined (equal captions). Columns of an encoder that is
not given stay as they are. A row with a picture that cannot be read says so in the column error; the others
go on, and the exit code is 1 at the end.

The encoders are checkpoint directories of Hugging Face, or .onnx files of them with preprocessor_config.json (and
tokenizer.json) beside them. Paths of pictures are relative to the input's folder. Every distinct picture and caption is
encoded once: the cache folder keeps what is known, for other tables too. Results are kept in OUT.progress while it runs:
after Ctrl-C (exit code 3) or a crash the same command goes on where it was.`,
		Example: `  label similarities --clip clip-vit-base-patch32 --dino dinov2-base --in edits.jsonl --out measured.jsonl
  label similarities --clip DIR --in edits.parquet --out measured.parquet --columns edit=output_image,target_caption=output_caption`,
		RunE: func(c *cobra.Command, _ []string) error { return runSimilarities(c, &r) },
	}
	f := c.Flags()
	f.StringVar(&r.clip, "clip", "", "CLIP checkpoint directory, or .onnx file")
	f.StringVar(&r.dino, "dino", "", "DINOv2 checkpoint directory, or .onnx file")
	f.StringVar(&r.in, "in", "", "table to read")
	f.StringVar(&r.out, "out", "", "table to write")
	f.StringVar(&r.cache, "cache", "", "folder of the store of embeddings that are known (default: assay/store in the user's cache folder)")
	f.Int64Var(&r.cacheMiB, "cache-size", 4096, "most MiB of that folder; what went unused longest is removed")
	f.StringVar(&r.options.Device, "device", "auto", "auto, cpu or cuda:N")
	f.IntVar(&r.options.Threads, "threads", 0, "CPU threads (0: all cores)")
	f.IntVar(&r.options.Batch, "batch", 32, "pictures of one run of an encoder")
	f.StringToStringVar(&r.columns, "columns", nil, "our column=the table's, for other names")
	return c
}

type similarityResult struct {
	Out     string         `json:"out"`
	Rows    int            `json:"rows"`
	Failed  int            `json:"failed"`
	Known   map[string]int `json:"known"`   // rows that have a number, by column
	Encoded int64          `json:"encoded"` // pictures and captions, by each encoder
	Cached  int64          `json:"cached"`  // that were known
}

func runSimilarities(c *cobra.Command, r *similarityRun) error {
	if r.in == "" || r.out == "" || r.clip == "" && r.dino == "" {
		return cli.Usagef("--in and --out are needed, tables (.jsonl, .csv or .parquet), and --clip or --dino, encoders")
	}
	format, err := data.FormatOf(r.out)
	if err != nil {
		return cli.Usage(err)
	}
	if r.options.Batch < 1 || r.cacheMiB < 1 {
		return cli.Usagef("--batch and --cache-size must be at least 1")
	}
	if r.cache == "" {
		var err error
		if r.cache, err = store.DefaultFolder(); err != nil {
			return cli.Usagef("--cache is needed: %w", err)
		}
	}
	t, err := data.OpenTable(r.in, data.WithColumns(r.columns), data.WithRequired("source", "edit"))
	if err != nil {
		return err
	}
	defer t.Close()
	cache, err := store.Open(r.cache, store.Options{Limit: r.cacheMiB << 20, Warn: cli.Warner(c)})
	if err != nil {
		return err
	}
	defer cache.Close()
	var m encoders.Measurer
	for _, e := range []struct {
		path string
		to   **encoders.Cached
	}{{r.clip, &m.CLIP}, {r.dino, &m.DINO}} {
		if e.path == "" {
			continue
		}
		model, err := encoders.Open(e.path, r.options)
		if err != nil {
			return err
		}
		defer model.Close()
		if *e.to, err = encoders.NewCached(model, cache); err != nil {
			return err
		}
	}
	result, err := r.run(c, t, &m, format)
	if err != nil {
		return err
	}
	words := func(w io.Writer) {
		fmt.Fprintf(w, "%d rows written to %s: clip_d %d, clip_i %d, dino_i %d, clip_t %d; %d encoded, %d known from the cache\n", result.Rows, result.Out,
			result.Known["clip_d"], result.Known["clip_i"], result.Known["dino_i"], result.Known["clip_t"], result.Encoded, result.Cached)
	}
	if err := cli.Print(c, result, words); err != nil || result.Failed == 0 {
		return err
	}
	return cli.Reported(fmt.Errorf("%d of %d rows have pictures or captions that cannot be read; the column error of %s says which", result.Failed, result.Rows, r.out))
}

// measured is what became of a row.
type measured struct {
	Row   int      `json:"row"`
	Of    string   `json:"of"` // digest of its captions and of the content of its pictures
	ClipD *float64 `json:"clip_d,omitempty"`
	ClipI *float64 `json:"clip_i,omitempty"`
	DinoI *float64 `json:"dino_i,omitempty"`
	ClipT *float64 `json:"clip_t,omitempty"`
	Error string   `json:"error,omitempty"`
}

// similarityHead says what a journal's results belong to.
type similarityHead struct {
	In         string            `json:"in"`
	Rows       int               `json:"rows"`
	Columns    map[string]string `json:"columns,omitempty"`
	CLIP, DINO string
}

func (r *similarityRun) run(c *cobra.Command, t *data.Table, m *encoders.Measurer, format data.Format) (*similarityResult, error) {
	head := similarityHead{In: r.in, Rows: t.Len(), Columns: r.columns}
	if abs, err := filepath.Abs(r.in); err == nil {
		head.In = abs
	}
	if m.CLIP != nil {
		head.CLIP = m.CLIP.Fingerprint()
	}
	if m.DINO != nil {
		head.DINO = m.DINO.Fingerprint()
	}
	progress := r.out + ".progress"
	j, known, err := journal.Open[measured](progress, head)
	if err != nil {
		return nil, err
	}
	done := map[int]measured{}
	for _, v := range known {
		if e, err := r.edit(t, v.Row); contentOf(t.Folder(), e, err) == v.Of { // else it was changed since
			done[v.Row] = v
		}
	}
	err = r.measure(c, t, m, done, j)
	err = errors.Join(err, j.Close())
	if c.Context().Err() != nil && errors.Is(err, context.Canceled) {
		return nil, fmt.Errorf("%d of %d rows are kept in %s; the same command goes on: %w", len(done), t.Len(), progress, cli.ErrInterrupted)
	} else if err != nil {
		return nil, err
	}
	result, err := r.write(t, m, format, done)
	if err != nil {
		return nil, err
	}
	return result, os.Remove(progress)
}

// rowsAtOnce are measured together: what an interrupt may cost.
const rowsAtOnce = 32

// measure measures the rows that are not done.
func (r *similarityRun) measure(c *cobra.Command, t *data.Table, m *encoders.Measurer, done map[int]measured, j *journal.Journal[measured]) error {
	bar := cli.NewProgress(c, "measuring", int64(t.Len()), "rows")
	defer bar.Close()
	bar.Add(int64(len(done)), "")
	start := time.Now()
	for i := 0; i < t.Len(); {
		var rows []measured
		var edits []encoders.Edit
		for ; i < t.Len() && len(rows) < rowsAtOnce; i++ {
			if _, ok := done[i]; ok {
				continue
			}
			e, err := r.edit(t, i)
			v := measured{Row: i, Of: contentOf(t.Folder(), e, err)}
			if err != nil {
				v.Error = err.Error()
			}
			rows, edits = append(rows, v), append(edits, e)
		}
		got, err := m.Measure(c.Context(), t.Folder(), edits)
		if err != nil {
			return err
		}
		for k, s := range got {
			v := &rows[k]
			v.ClipD, v.ClipI, v.DinoI, v.ClipT = s.ClipD, s.ClipI, s.DinoI, s.ClipT
			if err := s.Err(); err != nil {
				v.Error = err.Error()
			}
			done[v.Row] = *v
		}
		if err := j.Write(rows...); err != nil {
			return err
		}
		encoded, _ := counts(m)
		bar.Add(int64(len(rows)), fmt.Sprintf("%.1f encoded/s", float64(encoded)/time.Since(start).Seconds()))
	}
	return nil
}

// contentOf identifies what a row's numbers depend on besides the encoders; err is why it cannot be read.
func contentOf(folder string, e encoders.Edit, err error) string {
	parts := []string{fmt.Sprint(err), e.Before, e.After}
	for _, m := range []data.Image{e.Source, e.Edit, e.Target} {
		k, err := store.Content(folder, m)
		parts = append(parts, fmt.Sprint(k, err))
	}
	return store.KeyOf(parts...).String()
}

// edit reads a row's ingredients.
func (r *similarityRun) edit(t *data.Table, i int) (e encoders.Edit, err error) {
	rec, err := t.Record(i)
	if err != nil {
		return e, err
	}
	row, err := t.Row(rec)
	if err != nil {
		return e, err
	}
	e = encoders.Edit{Source: row.Source, Edit: row.Edit, Target: row.Target}
	for name, to := range map[string]*string{"source_caption": &e.Before, "target_caption": &e.After} {
		column := name
		if other := r.columns[name]; other != "" {
			column = other
		}
		v, _ := rec.Get(column)
		if *to, err = data.Text(v); err != nil {
			return encoders.Edit{}, fmt.Errorf("column %q: %w", column, err)
		}
	}
	return e, nil
}

func counts(m *encoders.Measurer) (encoded, known int64) {
	for _, c := range []*encoders.Cached{m.CLIP, m.DINO} {
		if c != nil {
			e, k := c.Counts()
			encoded, known = encoded+e, known+k
		}
	}
	return encoded, known
}

func (r *similarityRun) write(t *data.Table, m *encoders.Measurer, format data.Format, done map[int]measured) (*similarityResult, error) {
	result := &similarityResult{Out: r.out, Rows: t.Len(), Known: map[string]int{}}
	result.Encoded, result.Cached = counts(m)
	err := atomicfile.Write(r.out, func(w io.Writer) error {
		tw, err := t.NewWriter(w, format, measuredColumns...)
		if err != nil {
			return err
		}
		for i := range t.Len() {
			rec, err := t.Record(i)
			if err != nil { // the row cannot be read at all: its place is kept
				rec = data.Record{}
			}
			v := done[i]
			set := func(name string, by *encoders.Cached, x *float64) {
				if by == nil { // nobody measured it: what the table says
					old, _ := rec.Get(name)
					if n, err := data.Number(old); err == nil {
						x = n
					}
				}
				rec.Set(name, nil)
				if x != nil {
					rec.Set(name, *x)
					result.Known[name]++
				}
			}
			set("clip_d", m.CLIP, v.ClipD)
			set("clip_i", m.CLIP, v.ClipI)
			set("dino_i", m.DINO, v.DinoI)
			set("clip_t", m.CLIP, v.ClipT)
			if m.CLIP != nil {
				rec.Set("profile", measuredProfile)
			}
			rec.Set("error", nil)
			if v.Error != "" {
				result.Failed++
				rec.Set("error", v.Error)
			}
			if err := tw.Write(rec); err != nil {
				return err
			}
		}
		return tw.Close()
	})
	return result, err
}
