package t2i

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"assay/checkpoints"
	"assay/data"
	"assay/edit"
	"assay/encoders"
	"assay/internal/atomicfile"
	"assay/internal/exit"
	"assay/internal/strictjson"
)

// Source describes what is imported.
type Source struct {
	// Base is a checkpoint folder: the CLIP itself, or for hpsv2 and imagereward the tokenizer (of a CLIP, of BERT).
	Base string
	// Weights are the reward's own: a .safetensors file, or a file of torch.save; "": the base's.
	Weights string
	Config  string // hpsv2: open_clip's JSON; imagereward: med_config.json; "": as published
	Out     string // folder to create
	Copy    bool   // copy files that are otherwise referred to in place

	Preprocessing encoders.Preprocessing // "": the reward's own
}

// Imported describes the created folder.
type Imported struct {
	Out  string `json:"out"`
	Kind string `json:"kind"`
	Name string `json:"name"`
}

// Import creates the folder s.Out atomically. It is opened once before it gets its final name.
func Import(what string, s Source) (*Imported, error) {
	k, known := kinds[what]
	switch {
	case !known:
		return nil, exit.Usage(fmt.Errorf("kind %q: want one of %s", what, strings.Join(Kinds(), ", ")))
	case s.Base == "":
		return nil, exit.Usage(errors.New("--base is needed: a checkpoint folder"))
	case s.Weights == "" && what != clipScore && what != pickScore:
		return nil, exit.Usage(fmt.Errorf("--weights is needed: the file of %s", k.card.Name))
	case s.Config != "" && what != hpsv2 && what != imageReward:
		return nil, exit.Usage(fmt.Errorf("--config does not apply to %s", what))
	case s.Preprocessing != "" && !slices.Contains(encoders.Preprocessings(), s.Preprocessing):
		return nil, exit.Usage(fmt.Errorf("--preprocessing %q: want one of %q", s.Preprocessing, encoders.Preprocessings()))
	}
	c := &Config{Format: 1, Kind: what, Preprocessing: cmp.Or(s.Preprocessing, k.preprocessing)}
	err := atomicfile.WriteDir(s.Out, func(dir string) error {
		if err := s.fill(c, dir); err != nil {
			return err
		}
		j, err := open(c, Options{Device: "cpu"})
		if err != nil {
			return err
		}
		c.Digest, err = j.net.fingerprint()
		if err == nil {
			err = j.try()
		}
		if err := errors.Join(err, j.Close()); err != nil {
			return err
		}
		if err := c.relative(dir, s.Out); err != nil {
			return err
		}
		if err := c.write(filepath.Join(dir, ConfigFile)); err != nil {
			return err
		}
		return c.writeCard(filepath.Join(dir, "README.md"))
	})
	return &Imported{s.Out, what, k.card.Name}, err
}

// relative makes the paths of a judge in dir, which will be renamed to out, relative to it.
func (c *Config) relative(dir, out string) error {
	for _, path := range []*string{&c.Model, &c.Weights, &c.Head} {
		if *path == "" {
			continue
		}
		if inside, err := filepath.Rel(dir, *path); err == nil && filepath.IsLocal(inside) {
			*path = filepath.ToSlash(inside)
			continue
		}
		from, err := atomicfile.From(out, *path)
		if err != nil {
			return err
		}
		*path = filepath.ToSlash(from)
	}
	return nil
}

// fill writes the judge's own files into dir, and the paths of all files into c.
func (s *Source) fill(c *Config, dir string) error {
	model := filepath.Join(dir, "model")
	var err error
	switch c.Kind {
	case hpsv2, imageReward:
		c.Model = model
		if err := os.Mkdir(model, 0o777); err != nil {
			return err
		}
		write := s.hpsv2
		if c.Kind == imageReward {
			write = s.imageReward
		}
		return write(model)
	case aesthetic:
		c.Head = filepath.Join(dir, "head.safetensors")
		err = s.convert(c.Head, headPieces)
	default:
		if s.Weights != "" {
			c.Weights, err = filepath.Abs(s.Weights)
		}
	}
	if err == nil {
		c.Model, err = filepath.Abs(s.Base)
	}
	if err != nil || !s.Copy {
		return err
	}
	return c.copyModel(model)
}

// copyModel copies model and weights into a new folder.
func (c *Config) copyModel(to string) error {
	if err := os.Mkdir(to, 0o777); err != nil {
		return err
	}
	if err := checkpoints.CopyCompanions(c.Model, to); err != nil {
		return err
	}
	w, err := checkpoints.OpenWeightsAt(cmp.Or(c.Weights, c.Model))
	if err != nil {
		return err
	}
	defer w.Close()
	c.Model, c.Weights = to, ""
	if shards := w.Shards(); len(shards) == 1 {
		return atomicfile.Copy(shards[0].Path(), filepath.Join(to, checkpoints.SingleFile))
	}
	return w.CopyTo(to)
}

// convert converts the weights.
func (s *Source) convert(to string, pieces func(string) ([]piece, error)) error {
	f, err := checkpoints.OpenTensors(s.Weights)
	if err != nil {
		return err
	}
	if err := convert(f, to, pieces); err != nil {
		return errors.Join(fmt.Errorf("%s: %w", s.Weights, err), f.Close())
	}
	return f.Close()
}

// tokenizer copies the tokenizer of the base.
func (s *Source) tokenizer(dir string) error {
	if err := atomicfile.Copy(filepath.Join(s.Base, "tokenizer.json"), filepath.Join(dir, "tokenizer.json")); err != nil {
		return fmt.Errorf("--base: %w (want a folder with a tokenizer.json)", err)
	}
	return nil
}

// vitH14 is open_clip's configuration of ViT-H-14, of which HPSv2 is a fine-tuned version.
const vitH14 = `{"embed_dim": 1024, "vision_cfg": {"image_size": 224, "layers": 32, "width": 1280, "head_width": 80,
"patch_size": 14}, "text_cfg": {"context_length": 77, "vocab_size": 49408, "width": 1024, "heads": 16, "layers": 24}}`

// hpsv2 converts an open_clip checkpoint to the layout of transformers.
func (s *Source) hpsv2(dir string) error {
	raw, file := []byte(vitH14), "ViT-H-14.json"
	if s.Config != "" {
		var err error
		if raw, err = os.ReadFile(s.Config); err != nil {
			return fmt.Errorf("--config: %w", err)
		}
		file = s.Config
	}
	o, err := strictjson.Parse(file, raw)
	if err != nil {
		return err
	}
	config, side := openCLIPConfig(o)
	if err := o.Err(); err != nil {
		return err
	}
	for name, v := range map[string]any{"config.json": config, "preprocessor_config.json": map[string]any{
		"image_processor_type": "CLIPImageProcessor", "size": map[string]int{"shortest_edge": side},
		"crop_size": map[string]int{"height": side, "width": side}}} {
		raw, err := json.MarshalIndent(v, "", "  ")
		if err != nil {
			return err
		}
		if err := atomicfile.WriteBytes(filepath.Join(dir, name), raw); err != nil {
			return err
		}
	}
	if err := s.tokenizer(dir); err != nil {
		return err
	}
	return s.convert(filepath.Join(dir, checkpoints.SingleFile), openCLIPPieces)
}

// openCLIPConfig returns a config.json for an open_clip configuration, and the side of its pictures in pixels.
func openCLIPConfig(o *strictjson.Object) (config map[string]any, side int) {
	outer := o
	if o.Has("model_cfg") { // open_clip_config.json
		o = o.Sub("model_cfg")
	}
	width, quick := 0, false
	o.Get("embed_dim", &width)
	o.Opt("quick_gelu", &quick)
	tower := func(key string) map[string]int {
		part := o.Sub(key)
		if part == nil {
			o.Failf(key, "it is missing")
			part = o.None(key)
		}
		sizes := map[string]int{"layers": 0, "width": 0, "heads": 0, "head_width": 64, "image_size": 224, "patch_size": 0,
			"context_length": 77, "vocab_size": 49408}
		for name, v := range sizes {
			part.Opt(name, &v)
			sizes[name] = v
		}
		ratio := 4.0
		part.Opt("mlp_ratio", &ratio)
		if sizes["heads"] == 0 && sizes["head_width"] > 0 {
			sizes["heads"] = sizes["width"] / sizes["head_width"]
		}
		sizes["mlp"] = int(float64(sizes["width"]) * ratio)
		part.Close(strictjson.Harmless{"patch_dropout": nil})
		return sizes
	}
	act := "gelu"
	if quick {
		act = "quick_gelu"
	}
	common := func(t map[string]int) map[string]any {
		return map[string]any{"hidden_size": t["width"], "intermediate_size": t["mlp"], "num_hidden_layers": t["layers"],
			"num_attention_heads": t["heads"], "hidden_act": act, "layer_norm_eps": 1e-5}
	}
	v, t := tower("vision_cfg"), tower("text_cfg")
	vision, text := common(v), common(t)
	vision["image_size"], vision["patch_size"] = v["image_size"], v["patch_size"]
	text["max_position_embeddings"], text["vocab_size"] = t["context_length"], t["vocab_size"]
	text["eos_token_id"] = 2 // the end of a text is the first of its highest ids
	o.Close()
	if outer != o {
		outer.Close(strictjson.Harmless{"preprocess_cfg": nil})
	}
	return map[string]any{"model_type": "clip", "projection_dim": width, "vision_config": vision, "text_config": text},
		v["image_size"]
}

// try scores a grey picture: a graph that does not fit its weights fails only when it runs.
func (j *Judge) try() error {
	p := data.NewPicture(64, 48)
	for i := range p.Pix {
		p.Pix[i] = 128
	}
	_, errs, err := edit.ScoreAll(context.Background(), j, &edit.Edit{Output: p, Instruction: "a cup on a table"})
	return errors.Join(append(errs, err)...)
}

// medConfig is ImageReward's version of BLIP's med_config.json: BERT's base size, and one token each for decoding and
// for encoding with a picture.
const medConfig = `{"architectures": ["BertModel"], "attention_probs_dropout_prob": 0.1, "hidden_act": "gelu",
"hidden_dropout_prob": 0.1, "hidden_size": 768, "initializer_range": 0.02, "intermediate_size": 3072,
"layer_norm_eps": 1e-12, "max_position_embeddings": 512, "model_type": "bert", "num_attention_heads": 12,
"num_hidden_layers": 12, "pad_token_id": 0, "type_vocab_size": 2, "vocab_size": 30524, "encoder_width": 768,
"add_cross_attention": true}`

// imageReward fills a folder with ImageReward's weights, BLIP's configuration and BERT's tokenizer.
func (s *Source) imageReward(dir string) error {
	raw := []byte(medConfig)
	if s.Config != "" {
		var err error
		if raw, err = os.ReadFile(s.Config); err != nil {
			return fmt.Errorf("--config: %w", err)
		}
	}
	if err := atomicfile.WriteBytes(filepath.Join(dir, "config.json"), raw); err != nil {
		return err
	}
	if err := s.tokenizer(dir); err != nil {
		return err
	}
	return s.convert(filepath.Join(dir, checkpoints.SingleFile), blipPieces)
}
