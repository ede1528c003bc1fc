package label

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"assay/data"
	"assay/encoders"
	"assay/internal/cli"
	"assay/internal/exit"
	"assay/internal/store"
	"assay/internal/table"
)

func init() { App.Register(newSimilarities) }

// similarityRun is one run of the command.
type similarityRun struct {
	table             table.Options
	clip, dino, cache string
	cacheMiB          int64
	options           encoders.Options
	shard             cli.ShardFlags
}

func newSimilarities() *cobra.Command {
	var r similarityRun
	c := &cobra.Command{
		Use:   "similarities --clip DIR --dino DIR --in FILE --out FILE",
		Short: "Measure CLIP and DINOv2 similarities of the edits of a table",
		Long: `similarities reads a table (JSONL, CSV or Parquet) with the columns source and edit, and optionally target,
source_caption and target_caption. It writes the same rows with

  clip_d     direction: cosine of edit - source and target_caption - source_caption, of unit-length embeddings
  clip_i     cosine of edit and target
  dino_i     the same with DINOv2
  clip_t     cosine of edit and target_caption
  undefined  the columns of undefined numbers: clip_d if the captions are equal, and so have no direction
  profile    the labelling profile whose clip_d this is: label compares it with its own

A number is null if an input is missing, or if it is undefined; label tells the two apart by the column undefined.
Columns of an encoder that is not given stay as they are. A row with a picture that cannot be read has the reason in the
column error; the other rows are measured, and the exit code is then 1.

The encoders are Hugging Face checkpoint directories, or .onnx files with preprocessor_config.json (and tokenizer.json)
next to them. Relative picture paths start at the input's folder; OUT has them relative to its own. Every distinct
picture and caption is encoded once: the cache folder stores embeddings, for other tables as well. Results are saved in
OUT.progress during the run: after Ctrl-C (exit code 3) or a crash the same command resumes.`,
		Example: `  label similarities --clip clip-vit-base-patch32 --dino dinov2-base --in edits.jsonl --out measured.jsonl
  label similarities --clip DIR --in edits.parquet --out measured.parquet \
      --columns edit=output_image,target_caption=output_caption`,
		RunE: func(c *cobra.Command, _ []string) error { return runSimilarities(c, &r) },
	}
	r.shard.Add(c)
	f := c.Flags()
	f.StringVar(&r.clip, "clip", "", "CLIP checkpoint directory, or .onnx file")
	f.StringVar(&r.dino, "dino", "", "DINOv2 checkpoint directory, or .onnx file")
	f.StringVar(&r.table.In, "in", "", "table to read")
	f.StringVar(&r.table.Out, "out", "", "table to write (.jsonl or .parquet); replaced if it exists")
	cli.Writes(c, nil, "out")
	cli.TakesStorage(c, "in", "out")
	f.StringVar(&r.cache, "cache", "", "folder of the store of embeddings (default: assay/store in the user's cache "+
		"folder)")
	f.Int64Var(&r.cacheMiB, "cache-size", 4096, "maximum MiB of that folder; the least recently used records are removed")
	f.StringVar(&r.options.Device, "device", "auto", "auto, cpu or cuda:N")
	f.IntVar(&r.options.Threads, "threads", 0, "CPU threads (0: all cores)")
	f.IntVar(&r.options.Batch, "batch", 32, "pictures per run of an encoder")
	f.StringToStringVar(&r.table.Columns, "columns", nil, "our column=the table's column, where the names differ")
	return c
}

func runSimilarities(c *cobra.Command, r *similarityRun) error {
	if r.table.In == "" || r.table.Out == "" || r.clip == "" && r.dino == "" {
		return exit.Usagef("--in and --out are needed (a table of any format, and one ending in .jsonl or " +
			".parquet), and --clip or --dino (an encoder)")
	}
	err := r.shard.Set(c, &r.table)
	if err != nil {
		return err
	}
	if _, err := data.FormatOf(r.table.Out); err != nil {
		return exit.Usage(err)
	}
	if r.options.Batch < 1 || r.cacheMiB < 1 {
		return exit.Usagef("--batch and --cache-size must be at least 1")
	}
	if r.cache == "" {
		if r.cache, err = store.DefaultFolder(); err != nil {
			return exit.Usagef("--cache is needed: %w", err)
		}
	}
	t, err := r.open(c)
	if err != nil {
		return exit.Usage(err)
	}
	defer t.Close()
	cache, err := store.Open(r.cache, store.Options{Limit: r.cacheMiB << 20, Warn: cli.Warner(c)})
	if err != nil {
		return err
	}
	defer cache.Close()
	var m encoders.Measurer
	for _, e := range []struct {
		kind, path string
		to         **encoders.Cached
	}{{encoders.CLIP, r.clip, &m.CLIP}, {encoders.DINO, r.dino, &m.DINO}} {
		if e.path == "" {
			continue
		}
		r.options.Kind = e.kind
		model, err := encoders.Open(e.path, r.options)
		if err != nil {
			return exit.Named(err)
		}
		defer model.Close()
		if *e.to, err = encoders.NewCached(model, cache); err != nil {
			return err
		}
	}
	if r.table.Shard.Count > 0 {
		report, err := m.Job(t, r.table).Shard(c.Context())
		return r.shard.Finish(c, r.table.Out, report, err)
	}
	return r.finish(c, t, &m)
}

// open opens the table. Caption columns are not columns of the label table.
func (r *similarityRun) open(c *cobra.Command) (*data.Table, error) {
	t, err := data.OpenTable(r.table.In, data.WithColumns(data.WithoutCaptions(r.table.Columns)),
		data.WithFound(r.table.Columns), data.WithRequired("source", "edit"), data.WithStorage(c.Context()))
	if err != nil {
		return nil, err
	}
	if err := t.CheckOutput(r.table.Out); err != nil {
		return nil, errors.Join(err, t.Close())
	}
	if text := t.Swapped(); text != "" {
		cli.Warner(c)(text)
	}
	return t, nil
}

// finish measures the full table and prints the result.
func (r *similarityRun) finish(c *cobra.Command, t *data.Table, m *encoders.Measurer) error {
	bar := cli.Bar{Command: c, What: "measuring", Unit: "rows", Note: func(passed time.Duration) string {
		encoded, _ := m.Counts()
		return fmt.Sprintf("%.1f encoded/s", float64(encoded)/passed.Seconds())
	}}
	r.table.Progress = bar.Set
	result, err := m.Table(c.Context(), t, r.table)
	bar.Close()
	if err != nil {
		return err
	}
	known := 0
	for _, n := range result.Known {
		known += n
	}
	if known == 0 && len(result.Not) == 0 && result.Rows > result.Failed {
		cli.Warner(c)("nothing was measured: no row has the picture (target) or the captions (source_caption, " +
			"target_caption) that the similarities need. Are the columns named otherwise (--columns)?")
	}
	words := func(w io.Writer) {
		fmt.Fprintf(w, "%d rows written to %s: clip_d %d, clip_i %d, dino_i %d, clip_t %d; %d encoded, %d known from the "+
			"cache\n", result.Rows, result.Out,
			result.Known["clip_d"], result.Known["clip_i"], result.Known["dino_i"], result.Known["clip_t"], result.Encoded,
			result.Cached)
		for _, name := range slices.Sorted(maps.Keys(result.Not)) {
			fmt.Fprintf(w, "%s is undefined for %d rows (equal captions have no direction): column undefined\n", name,
				result.Not[name])
		}
	}
	if err := cli.Print(c, result, words); err != nil || result.Failed == 0 {
		return err
	}
	return exit.Reported(fmt.Errorf("%d of %d rows have pictures or captions that cannot be read; the column error of "+
		"%s says which", result.Failed, result.Rows, r.table.Out))
}
