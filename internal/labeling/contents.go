package labeling

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"strings"

	"assay/data"
	"assay/data/readers"
	"assay/encoders"
	"assay/internal/store"
)

// contents computes digests of what parts depend on: texts, the bytes of pictures, the weights of encoders. The
// digest is the first line of a part, which is measured again when it has changed.
type contents struct {
	config *Config
	models string                    // of the encoders
	pools  map[int][]*readers.Sample // the samples that lend their instructions, by source
}

// partFormat is the version of the rows of parts.
const partFormat = "3"

// inputs are what a part is made of.
type inputs struct {
	part  part
	of    string               // digest of all
	files map[string]store.Key // content of the picture files, by path
	// embedded are the contents of pictures whose embeddings are wanted.
	embedded map[store.Key]bool
}

// embeds reports whether an output has to be embedded. Sources and targets always are, pictures of chains never.
func (c *Config) embeds(o *readers.Output) bool {
	return c.Encoders.Given != "keep" || o.ClipD.Unknown() || o.ClipI.Unknown() || o.DinoI.Unknown()
}

func newContents(c *Config) (*contents, error) {
	d := &contents{config: c, pools: map[int][]*readers.Sample{}}
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
func (d *contents) part(ctx context.Context, p part, r readers.Reader) (inputs, error) {
	in := inputs{part: p, files: map[string]store.Key{}, embedded: map[store.Key]bool{}}
	pool, err := d.lenders(ctx, p.source, r)
	if err != nil {
		return in, err
	}
	said := []string{partFormat, d.models, data.Decoding}
	for _, s := range pool {
		said = append(said, s.Instruction, s.SourceCaption, s.TargetCaption)
	}
	for i := range p.samples {
		if err := ctx.Err(); err != nil {
			return in, err
		}
		text, err := d.sample(&in, p.source, p.first+i, r)
		if err != nil {
			return in, err
		}
		said = append(said, text)
	}
	in.of = store.KeyOf(said...).String()[:32]
	return in, nil
}

// sample describes a sample with the content of its pictures in place of the pictures.
func (d *contents) sample(in *inputs, source, i int, r readers.Reader) (string, error) {
	s, err := r.Read(i)
	var left readers.Left
	if errors.As(err, &left) {
		return "left out: " + string(left), nil
	} else if err != nil { // wherever the data set lies
		root := filepath.Dir(d.config.Sources[source].Path)
		return "unreadable: " + strings.ReplaceAll(err.Error(), root, ""), nil
	}
	var foreign []data.Image
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
		for _, m := range append(slices.Clone(s.Chain.Pictures), foreign...) {
			chain.Pictures = append(chain.Pictures, d.image(in, m, false))
		}
		copied.Chain = &chain
	}
	text, err := json.Marshal(&copied)
	return string(text), err
}

// image names a picture by its place and content.
func (d *contents) image(in *inputs, m data.Image, embed bool) data.Image {
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
