package labeling

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"

	"assay/data"
	"assay/data/readers"
	"assay/encoders"
	"assay/store"
)

// identifier finds out what parts are made of: texts, the content of pictures, the content of encoders' weights. A part
// says in its first line what it was made of; it is measured again when that is no longer so.
type identifier struct {
	config *Config
	models string         // of the encoders
	pools  map[int]string // digests of the samples that lend their instructions, by source
}

// inputs are what a part is made of.
type inputs struct {
	of    string               // digest of all
	files map[string]store.Key // content of the picture files, by path
	// embedded are the contents of pictures whose embeddings are wanted.
	embedded map[store.Key]bool
}

// embeds tells whether an output has to be embedded. Sources and targets always are, pictures of chains never.
func (c *Config) embeds(o *readers.Output) bool {
	return c.Encoders.Given != "keep" || o.ClipD.Unknown() || o.ClipI.Unknown() || o.DinoI.Unknown()
}

func newIdentifier(c *Config) (*identifier, error) {
	d := &identifier{config: c, pools: map[int]string{}}
	for _, path := range []string{c.Encoders.Clip, c.Encoders.Dino} {
		print := ""
		if path != "" {
			var err error
			if print, err = encoders.Fingerprint(path); err != nil {
				return nil, err
			}
		}
		d.models += print + "\n"
	}
	return d, nil
}

// part looks at the samples of a part.
func (d *identifier) part(ctx context.Context, id partID, r readers.Reader) (inputs, error) {
	in := inputs{files: map[string]store.Key{}, embedded: map[store.Key]bool{}}
	pool, err := d.pool(ctx, id.source, r)
	if err != nil {
		return in, err
	}
	said := []string{d.models, data.Decoding, pool}
	first := id.part * samplesPerPart
	for i := first; i < min(first+samplesPerPart, r.Len()); i++ {
		if err := ctx.Err(); err != nil {
			return in, err
		}
		text, err := d.sample(&in, id.source, i, r)
		if err != nil {
			return in, err
		}
		said = append(said, text)
	}
	in.of = store.KeyOf(said...).String()[:32]
	return in, nil
}

// sample describes a sample with the content of its pictures in place of the pictures.
func (d *identifier) sample(in *inputs, source, i int, r readers.Reader) (string, error) {
	s, err := r.Read(i)
	var left readers.Left
	if errors.As(err, &left) {
		return "left out: " + string(left), nil
	} else if err != nil { // wherever the data set lies
		root := filepath.Dir(d.config.Sources[source].Path)
		return "unreadable: " + strings.ReplaceAll(err.Error(), root, ""), nil
	}
	var foreign []*data.Image
	if s.Chain != nil {
		foreign = d.config.foreignPictures(source, i, s, r)
	}
	copied := *s
	copied.Source, copied.Target = d.image(in, s.Source, true), d.image(in, s.Target, true)
	copied.Outputs = append([]readers.Output(nil), s.Outputs...)
	for k := range copied.Outputs {
		copied.Outputs[k].Picture = d.image(in, s.Outputs[k].Picture, d.config.embeds(&s.Outputs[k]))
	}
	if s.Chain != nil {
		chain := readers.Chain{Instructions: s.Chain.Instructions}
		for _, m := range s.Chain.Pictures {
			chain.Pictures = append(chain.Pictures, d.image(in, m, false))
		}
		for _, m := range foreign {
			if m == nil {
				m = &data.Image{}
			}
			chain.Pictures = append(chain.Pictures, d.image(in, *m, false))
		}
		copied.Chain = &chain
	}
	text, err := json.Marshal(&copied)
	return string(text), err
}

// image names a picture by its place and content.
func (d *identifier) image(in *inputs, m data.Image, embed bool) data.Image {
	if m.IsZero() {
		return m
	}
	path := m.File("")
	k, err := store.Content("", m)
	if err != nil {
		return data.Image{Path: "unreadable " + d.config.relative(path)}
	}
	in.embedded[k] = in.embedded[k] || embed
	if path == "" {
		return data.Image{Path: k.String()}
	}
	in.files[path] = k
	return data.Image{Path: k.String() + " " + d.config.relative(path)}
}

// pool describes the samples of a source that lend their instructions.
func (d *identifier) pool(ctx context.Context, source int, r readers.Reader) (string, error) {
	if d.config.Foreign.Instructions == 0 {
		return "", nil
	}
	if known, ok := d.pools[source]; ok {
		return known, nil
	}
	samples, err := d.config.lenders(ctx, source, r)
	if err != nil {
		return "", err
	}
	var said []string
	for _, s := range samples {
		said = append(said, s.Instruction, s.SourceCaption, s.TargetCaption)
	}
	d.pools[source] = store.KeyOf(said...).String()
	return d.pools[source], nil
}

// foreignPictures draws, for each turn of a chain that shows a picture of another chain, that picture; nil if there is
// none.
func (c *Config) foreignPictures(source, sample int, s *readers.Sample, r readers.Reader) []*data.Image {
	turns, err := c.Chains.Turns(c.Seed, fmt.Sprintf("%s/%s", c.Sources[source].Name, s.ID), len(s.Chain.Pictures))
	if err != nil { // measuring says so
		return nil
	}
	rng := rand.New(rand.NewPCG(c.Seed, uint64(source)<<40|uint64(sample)))
	var out []*data.Image
	for _, t := range turns {
		if t.Foreign {
			out = append(out, foreignPicture(rng, r, sample, s.Session))
		}
	}
	return out
}

// madeOf reads what a part says it was made of; "" if the file is of an earlier version or not there.
func madeOf(path string) (string, error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	} else if err != nil {
		return "", err
	}
	defer f.Close()
	line, err := bufio.NewReader(f).ReadBytes('\n')
	if err != nil && err != io.EOF { // a part that cannot be read is not one that is lacking
		return "", err
	}
	var e entry
	if json.Unmarshal(line, &e) != nil {
		return "", nil
	}
	return e.Of, nil
}

// lacking lists the parts that are not there, or were made of something else than there is now.
func (j *Job) lacking(ctx context.Context) ([]partID, error) {
	var todo []partID
	for id := range j.plan.parts() {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		of, err := madeOf(id.file(j.Config.Out))
		if err != nil {
			return nil, err
		}
		if of != "" {
			in, err := j.inputs.part(ctx, id, j.readers[id.source])
			if err != nil {
				return nil, err
			}
			if in.of == of {
				continue
			}
		}
		todo = append(todo, id)
	}
	return todo, nil
}
