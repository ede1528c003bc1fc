// Command demo makes the demonstration's data, and looks at how a scorer trained on it did.
//
//	demo make   --photos examples/photos --out build/demo/data
//	demo report --scores build/demo/held-scores.jsonl
//
// The data are edits of photographs whose true degree of success is known because they were made by plain picture
// operations. For every source picture and instruction there are six outputs: the right edit (label 1), half of it and too
// much of it (0.5), another edit, none at all, and a damaged picture (0).
package main

import (
	"bytes"
	"flag"
	"fmt"
	"hash/fnv"
	"iter"
	"log"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"assay/data"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) < 2 || os.Args[1] != "make" && os.Args[1] != "report" {
		log.Fatal("usage: demo make [flags] | demo report [flags]; -h lists them")
	}
	f := flag.NewFlagSet(os.Args[1], flag.ExitOnError)
	var err error
	if os.Args[1] == "report" {
		scores := f.String("scores", "build/demo/held-scores.jsonl", "held-out rows with their scores")
		f.Parse(os.Args[2:])
		err = report(*scores)
	} else {
		var (
			photos = f.String("photos", "examples/photos", "folder of photographs")
			out    = f.String("out", "build/demo/data", "folder to write tables, texts and pictures/ into")
			crops  = f.Int("crops", 100, "source pictures cut from each photograph")
			size   = f.Int("size", 64, "side of a source picture, pixels")
			held   = f.String("held", "tissue,rocket", "photographs that are never trained on")
			seed   = f.Uint64("seed", 1, "of everything random")
		)
		f.Parse(os.Args[2:])
		err = run(*photos, *out, *crops, *size, strings.Split(*held, ","), *seed)
	}
	if err != nil {
		log.Fatal("demo: ", err)
	}
}

func run(photos, out string, crops, size int, held []string, seed uint64) error {
	files, err := filepath.Glob(filepath.Join(photos, "*.png"))
	if err != nil || len(files) == 0 {
		return fmt.Errorf("no *.png in %s (%v)", photos, err)
	}
	if err := os.MkdirAll(filepath.Join(out, "pictures"), 0o777); err != nil {
		return err
	}
	var (
		wg     sync.WaitGroup
		tables = map[string][]data.Row{}
		errs   = make([]error, len(files))
		rows   = make([][]data.Row, len(files))
	)
	for i, file := range files {
		wg.Go(func() { rows[i], errs[i] = cut(file, out, crops, size, held, seed) })
	}
	wg.Wait()
	for i := range files {
		if errs[i] != nil {
			return errs[i]
		}
		tables[rows[i][0].Split] = append(tables[rows[i][0].Split], rows[i]...)
	}
	for _, split := range []string{"train", "held"} {
		file := filepath.Join(out, split+".jsonl")
		if err := data.WriteTable(file, all(tables[split])); err != nil {
			return err
		}
		fmt.Printf("%-5s %d labelled edits in %s\n", split, len(tables[split]), file)
	}
	var texts []string
	for _, f := range families {
		texts = append(texts, f.wording...)
	}
	return os.WriteFile(filepath.Join(out, "texts.txt"), []byte(strings.Join(texts, "\n")+"\n"), 0o666)
}

// cut makes the rows of one photograph.
func cut(file, out string, crops, size int, held []string, seed uint64) ([]data.Row, error) {
	name, split := strings.TrimSuffix(filepath.Base(file), ".png"), "train"
	if slices.Contains(held, name) {
		split = "held"
	}
	photo, err := data.Open(file, data.Limits{})
	if err != nil {
		return nil, err
	}
	h := fnv.New64a()
	h.Write([]byte(name))
	rng := rand.New(rand.NewPCG(seed, h.Sum64()))
	var rows []data.Row
	for i := range crops {
		side := min(photo.Width, photo.Height) * (2 + rng.IntN(3)) / 5
		source := photo.Crop(rng.IntN(photo.Width-side+1), rng.IntN(photo.Height-side+1), side, side).Resize(size, size, data.Bicubic)
		source = vary(source, rng)
		more, err := edits(out, fmt.Sprintf("%s-%03d", name, i), source, split, rng)
		if err != nil {
			return nil, err
		}
		rows = append(rows, more...)
	}
	return rows, nil
}

// edits writes a source and, for two instructions, its six outputs.
func edits(out, id string, source *data.Picture, split string, rng *rand.Rand) ([]data.Row, error) {
	save := func(name string, p *data.Picture) (data.Image, error) {
		path := filepath.Join("pictures", name+".png")
		var b bytes.Buffer // thousands of small files that can be made again: not synced one by one
		if err := p.EncodePNG(&b); err != nil {
			return data.Image{}, err
		}
		return data.Image{Path: path}, os.WriteFile(filepath.Join(out, path), b.Bytes(), 0o666)
	}
	src, err := save(id, source)
	if err != nil {
		return nil, err
	}
	var rows []data.Row
	for _, k := range rng.Perm(len(families))[:2] {
		f := families[k]
		other := families[(k+1+rng.IntN(len(families)-1))%len(families)]
		right := f.apply(source, 1)
		outputs := []struct {
			why   string
			label float64
			p     *data.Picture
		}{
			{"right", 1, right}, {"half", 0.5, f.apply(source, 0.4)}, {"too much", 0.5, f.apply(source, 2)},
			{"wrong", 0, other.apply(source, 1)}, {"none", 0, source}, {"damaged", 0, damage(right, rng)},
		}
		instruction := f.wording[rng.IntN(len(f.wording))]
		for j, o := range outputs {
			edit, err := save(fmt.Sprintf("%s-%s-%d", id, f.name, j), o.p)
			if err != nil {
				return nil, err
			}
			rows = append(rows, data.Row{ID: fmt.Sprintf("%s-%s-%d", id, f.name, j), Group: id + "-" + f.name, Source: src, Edit: edit,
				Instruction: instruction, Label: &o.label, Why: o.why, Method: f.name, Split: split, Dataset: "demo"})
		}
	}
	return rows, nil
}

// all yields rows as a table's writer takes them.
func all(rows []data.Row) iter.Seq2[data.Row, error] {
	return func(yield func(data.Row, error) bool) {
		for _, r := range rows {
			if !yield(r, nil) {
				return
			}
		}
	}
}
