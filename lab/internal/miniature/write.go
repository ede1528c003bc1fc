package miniature

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"text/template"

	"assay/data"
	"assay/internal/atomicfile"
	"assay/internal/workers"
)

// Files of a data set. The tables are .jsonl with a folder of PNG files, or .parquet with embedded pictures.
const (
	EditsTable  = "edits"  // one row per output, for the layout "table"
	ChainsTable = "chains" // one row per turn, for the layout "magicbrush"
	TruthFile   = "truth.jsonl"
	AboutFile   = "README.md"

	picturesFolder = "pictures"
)

// Set describes a data set to write.
type Set struct {
	Seed         uint64
	Instructions int
	Chains       int  // of 2 to 4 edits
	Exam         bool // one output of every kind for each instruction, not one of every editor
	Embed        bool // Parquet tables that hold the pictures
}

// Summary counts what was written.
type Summary struct {
	Instructions int          `json:"instructions"`
	Outputs      int          `json:"outputs"`
	Chains       int          `json:"chains"`
	Pictures     int          `json:"pictures"`
	Kinds        map[Kind]int `json:"kinds"`
}

// item holds the rows of one instruction or one chain.
type item struct {
	rows     []data.Record
	truth    []Truth
	pictures int
	err      error
}

// Write writes a data set into the folder dir, complete or not at all. It depends only on the photographs, the world
// and the set, not on the number of CPUs. done is called for every finished instruction and chain, with the number of
// its pictures, from several goroutines.
func (w *World) Write(ctx context.Context, dir string, set Set, done func(pictures int)) (*Summary, error) {
	if set.Instructions < 0 || set.Chains < 0 || set.Instructions+set.Chains == 0 {
		return nil, fmt.Errorf("%d instructions and %d chains: want at least one of either", set.Instructions, set.Chains)
	}
	s := &Summary{Instructions: set.Instructions, Chains: set.Chains, Kinds: map[Kind]int{}}
	err := atomicfile.WriteDir(dir, func(tmp string) error {
		truth, err := os.Create(filepath.Join(tmp, TruthFile))
		if err != nil {
			return err
		}
		defer truth.Close()
		lines, err := data.NewWriter(truth, data.FormatJSONL, nil)
		if err != nil {
			return err
		}
		b := &builder{w, set, tmp, lines, s, done}
		if err := b.table(ctx, EditsTable, editColumns, set.Instructions, b.task); err != nil {
			return err
		}
		if err := b.table(ctx, ChainsTable, chainColumns, set.Chains, b.chain); err != nil {
			return err
		}
		if err := lines.Close(); err != nil {
			return err
		}
		about, err := w.about(set, s)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(tmp, AboutFile), about, 0o666)
	})
	return s, err
}

type builder struct {
	world   *World
	set     Set
	dir     string
	truth   data.Writer
	summary *Summary
	done    func(int)
}

var editColumns = []data.Column{
	{Name: "id", Kind: data.KindText},
	{Name: "group", Kind: data.KindText},
	{Name: "photo", Kind: data.KindText},
	{Name: "source", Kind: data.KindImage},
	{Name: "edit", Kind: data.KindImage},
	{Name: "target", Kind: data.KindImage},
	{Name: "instruction", Kind: data.KindText},
	{Name: "source_caption", Kind: data.KindText},
	{Name: "target_caption", Kind: data.KindText},
	{Name: "method", Kind: data.KindText},
}

var chainColumns = []data.Column{
	{Name: "img_id", Kind: data.KindText},
	{Name: "turn_index", Kind: data.KindInteger},
	{Name: "source_img", Kind: data.KindImage},
	{Name: "target_img", Kind: data.KindImage},
	{Name: "instruction", Kind: data.KindText},
	{Name: "source_caption", Kind: data.KindText},
	{Name: "target_caption", Kind: data.KindText},
	{Name: "photo", Kind: data.KindText},
}

// record pairs the columns with their values.
func record(columns []data.Column, values ...any) data.Record {
	var r data.Record
	for i, c := range columns {
		r.Fields = append(r.Fields, data.Field{Name: c.Name, Value: values[i]})
	}
	return r
}

// table writes n items in order. Several goroutines make them, a batch at a time, each item with its own generator.
func (b *builder) table(
	ctx context.Context,
	name string,
	columns []data.Column,
	n int,
	one func(*rand.Rand, int) item,
) (err error) {
	if n == 0 {
		return nil
	}
	format, ext := data.FormatJSONL, ".jsonl"
	if b.set.Embed {
		format, ext = data.FormatParquet, ".parquet"
	}
	f, err := os.Create(filepath.Join(b.dir, name+ext))
	if err != nil {
		return err
	}
	defer func() {
		if e := f.Close(); err == nil {
			err = e
		}
	}()
	out, err := data.NewWriter(f, format, columns)
	if err != nil {
		return err
	}
	most := 16 * runtime.GOMAXPROCS(0)
	for first := 0; first < n; first += most {
		items := make([]item, min(most, n-first))
		workers.Do(len(items), func(i int) {
			if err := ctx.Err(); err != nil {
				items[i].err = err
				return
			}
			items[i] = one(generator(b.set.Seed, name, first+i), first+i)
			b.done(items[i].pictures)
		})
		for _, it := range items {
			if it.err != nil {
				return it.err
			}
			if err := b.add(out, it); err != nil {
				return err
			}
		}
	}
	return out.Close()
}

// generator returns the generator of item i of a table.
func generator(seed uint64, table string, i int) *rand.Rand {
	return rand.New(rand.NewPCG(seed, uint64(table[0])<<56|uint64(i)))
}

func (b *builder) add(out data.Writer, it item) error {
	for _, r := range it.rows {
		if err := out.Write(r); err != nil {
			return err
		}
	}
	b.summary.Pictures += it.pictures
	for _, t := range it.truth {
		if t.Kind != Chained {
			b.summary.Outputs++
			b.summary.Kinds[t.Kind]++
		}
		if err := b.truth.Write(t.record()); err != nil {
			return err
		}
	}
	return nil
}

// task makes instruction i with its outputs.
func (b *builder) task(rng *rand.Rand, i int) (it item) {
	t, err := b.world.Task(rng, Families[i%len(Families)])
	if err != nil {
		return item{err: err}
	}
	group := fmt.Sprintf("%06d", i)
	k := b.keeper(group, &it)
	outputs := t.outputs
	if b.set.Exam {
		outputs = t.examined
	}
	target := t.Target(rng)
	source, goal := k.keep("source", t.Source), k.keep("target", target.Picture)
	for _, o := range outputs(rng) {
		id := group + "/" + o.editor
		it.rows = append(it.rows, record(editColumns, id, group, t.Photo.Name, source, k.keep(o.editor, o.Picture), goal,
			t.Instruction, t.SourceCaption(), t.Caption(target), o.editor))
		it.truth = append(it.truth, Truth{id, o.Degree, o.Kind, t.Family, len(t.Asked), t.Photo.Name, describe(o.Candidate)})
	}
	return it
}

// chain makes chain i.
func (b *builder) chain(rng *rand.Rand, i int) (it item) {
	c, err := b.world.Chain(rng, 2+rng.IntN(3))
	if err != nil {
		return item{err: err}
	}
	id := fmt.Sprintf("c%06d", i)
	k := b.keeper(id, &it)
	var pictures []data.Image
	for j, p := range c.Pictures {
		pictures = append(pictures, k.keep(fmt.Sprint(j), p))
	}
	n := len(c.Edits)
	for j := range n {
		it.rows = append(it.rows, record(chainColumns, id, int64(j+1), pictures[j], pictures[j+1], c.Instructions[j],
			c.Captions[j], c.Captions[j+1], c.Photo.Name))
	}
	for from := range n {
		for to := from + 1; to <= n; to++ {
			for shown := range n + 1 {
				name := fmt.Sprintf("%s/%d-%d/%d", id, from, to, shown)
				it.truth = append(it.truth, Truth{name, c.Degree(from, to, shown), Chained, c.Edits[from].Family, to - from,
					c.Photo.Name, ""})
			}
		}
	}
	return it
}

// keeper stores the pictures of one item.
type keeper struct {
	b    *builder
	name string
	it   *item
}

func (b *builder) keeper(name string, it *item) *keeper { return &keeper{b, name, it} }

// keep encodes a picture and, unless it goes into the table, writes it into a file.
func (k *keeper) keep(name string, p *data.Picture) data.Image {
	k.it.pictures++
	m := data.Image{Path: picturesFolder + "/" + k.name + "/" + name + ".png"}
	var raw bytes.Buffer
	err := p.EncodePNG(&raw)
	if k.b.set.Embed {
		m.Bytes = raw.Bytes()
	} else if err == nil {
		path := filepath.Join(k.b.dir, filepath.FromSlash(m.Path))
		if err = os.MkdirAll(filepath.Dir(path), 0o777); err == nil {
			err = os.WriteFile(path, raw.Bytes(), 0o666)
		}
	}
	if k.it.err == nil {
		k.it.err = err
	}
	return m
}

//go:embed about.tmpl
var aboutText string

var aboutTemplate = template.Must(template.New("").Funcs(template.FuncMap{"join": strings.Join}).Parse(aboutText))

// about returns the README of a data set: its contents and its origin.
func (w *World) about(set Set, s *Summary) ([]byte, error) {
	v := struct {
		*Summary
		Set
		Size                 int
		Ext                  string
		Photos, Weak, Strong []string
	}{Summary: s, Set: set, Size: w.Size, Ext: ".jsonl"}
	if set.Embed {
		v.Ext = ".parquet"
	}
	for _, p := range w.Photos {
		v.Photos = append(v.Photos, p.Name)
	}
	for _, e := range Editors {
		switch {
		case e.Weak:
			v.Weak = append(v.Weak, e.Name)
		case e.Strong:
			v.Strong = append(v.Strong, e.Name)
		}
	}
	var b bytes.Buffer
	err := aboutTemplate.Execute(&b, v)
	return b.Bytes(), err
}
