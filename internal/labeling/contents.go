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
	"assay/internal/store"
)

// partFormat is the version of the rows of parts.
const partFormat = "3"

// inputs are the inputs of a part: texts, the bytes of pictures, the weights of encoders. Their digest is the first
// line of the part, which is measured again if the digest changes.
type inputs struct {
	part  part
	of    string               // digest of all inputs
	files map[string]store.Key // content of the picture files, by path
	// embedded are the contents of pictures whose embeddings are needed.
	embedded map[store.Key]bool
}

// embeds reports whether an output must be embedded. Sources and targets always are, pictures of chains never.
func (c *Config) embeds(o *readers.Output) bool {
	return c.Encoders.Given != "keep" || o.ClipD.Unknown() || o.ClipI.Unknown() || o.DinoI.Unknown()
}

// inputs collects the inputs of a part.
func (j *Job) inputs(ctx context.Context, p part) (inputs, error) {
	in := inputs{part: p, files: map[string]store.Key{}, embedded: map[store.Key]bool{}}
	pool, err := j.lenders(ctx, p.source)
	if err != nil {
		return in, err
	}
	said := []string{partFormat, j.models, data.Decoding()}
	for _, s := range pool {
		said = append(said, s.Instruction, s.SourceCaption, s.TargetCaption)
	}
	for i := range p.samples {
		if err := ctx.Err(); err != nil {
			return in, err
		}
		text, err := j.describe(&in, p.source, p.first+i)
		if err != nil {
			return in, err
		}
		said = append(said, text)
	}
	in.of = store.KeyOf(said...).String()[:32]
	return in, nil
}

// describe returns a sample as text, with the content digests of its pictures instead of the pictures.
func (j *Job) describe(in *inputs, source, i int) (string, error) {
	s, err := j.readers[source].Read(i)
	var left readers.Left
	if errors.As(err, &left) {
		return "left out: " + string(left), nil
	} else if err != nil { // independent of where the data set is
		root := filepath.Dir(j.Config.Sources[source].Path)
		return "unreadable: " + strings.ReplaceAll(err.Error(), root, ""), nil
	}
	var foreign []data.Image
	if s.Chain != nil {
		foreign = j.Config.foreignPictures(source, i, s, j.readers[source])
	}
	copied := *s
	copied.Source, copied.Target = j.image(in, s.Source, true), j.image(in, s.Target, true)
	copied.Outputs = append([]readers.Output(nil), s.Outputs...)
	for k := range copied.Outputs {
		copied.Outputs[k].Picture = j.image(in, s.Outputs[k].Picture, j.Config.embeds(&s.Outputs[k]))
	}
	if s.Chain != nil {
		chain := readers.Chain{Instructions: s.Chain.Instructions}
		for _, m := range append(slices.Clone(s.Chain.Pictures), foreign...) {
			chain.Pictures = append(chain.Pictures, j.image(in, m, false))
		}
		copied.Chain = &chain
	}
	text, err := json.Marshal(&copied)
	return string(text), err
}

// image identifies a picture by its path and content.
func (j *Job) image(in *inputs, m data.Image, embed bool) data.Image {
	if m.IsZero() {
		return m
	}
	path := m.File("")
	k, err := store.Content("", m)
	if err != nil {
		return data.Image{Path: "unreadable " + j.Config.relative(path)}
	}
	in.embedded[k] = in.embedded[k] || embed
	if path == "" {
		return data.Image{Path: k.String()}
	}
	in.files[path] = k
	return data.Image{Path: k.String() + " " + j.Config.relative(path)}
}
