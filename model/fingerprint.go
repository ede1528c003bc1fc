package model

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"gorgonia.org/tensor"

	"assay/checkpoints"
	"assay/internal/workers"
	"assay/lora"
	"assay/onnx"
	"assay/store"
)

// Fingerprint identifies a scorer's configuration, tensors and backbone.
func (n *network) Fingerprint() (string, error) {
	print, err := n.fingerprint(*n.config, all, all)
	if k := n.calibrationIdentity(); err == nil && k != "" {
		print = store.KeyOf(print, k).String()[:24]
	}
	return print, err
}

func all(string) bool { return true }

// StateFingerprint identifies what the hidden states at the score token depend on: all but the head.
func (n *network) StateFingerprint() (string, error) {
	if n.config.Format == 2 {
		print, err := n.fingerprint(*n.config, all, all)
		return print + " " + n.arithmetic(), err
	}
	c := *n.config
	c.Head, c.ScoreRange, c.TextLoss = HeadConfig{}, [2]float64{}, ""
	print, err := n.fingerprint(c, func(name string) bool { return !strings.HasPrefix(name, "layers.") }, all)
	return print + " " + n.arithmetic(), err
}

// featureFingerprint identifies what image features depend on besides the picture: the backbone, and an adapter's
// layers in its vision side.
func (n *network) featureFingerprint() (string, error) {
	none := func(string) bool { return false }
	c := ScorerConfig{}
	if n.config.Rotary == "bfloat16" {
		c.Rotary = n.config.Rotary
	}
	print, err := n.fingerprint(c, none, func(module string) bool {
		return !strings.HasPrefix(module, n.backbone.Decoder().Module)
	})
	return print + " " + n.arithmetic(), err
}

// arithmetic says how values are computed: they are not the same to the last bit elsewhere.
func (n *network) arithmetic() string {
	switch {
	case n.onCUDA() && n.config.DType == "bfloat16":
		return "cuda bfloat16, attention of towers too" // it was float32 once
	case n.onCUDA():
		return "cuda " + n.config.DType
	}
	return "cpu " + n.config.DType
}

// fingerprint identifies a configuration and the backbone. It covers the scorer's own tensors that count, by their
// names, and the adapter's layers that count, by their modules, with their scales (they follow from alpha).
func (n *network) fingerprint(c ScorerConfig, own, module func(name string) bool) (string, error) {
	backbone, err := n.BackboneFingerprint()
	if err != nil {
		return "", err
	}
	h := sha256.New()
	fmt.Fprintf(h, "%s\n%s\n", c.identity(), backbone)
	tensors := maps.Clone(n.tensors)
	write := func(what string, t *tensor.Dense) {
		fmt.Fprintln(h, what, t.Shape())
		h.Write(onnx.Float32Bytes(t.Data().([]float32)))
	}
	if n.adapter != nil {
		for _, t := range n.adapter.Targets {
			for _, name := range []string{lora.NameA(t.Module), lora.NameB(t.Module)} {
				if module(t.Module) {
					write(fmt.Sprintf("%s %+v", name, t), tensors[name])
				}
				delete(tensors, name)
			}
			if name := lora.NameM(t.Module); tensors[name] != nil {
				if module(t.Module) {
					write(name, tensors[name])
				}
				delete(tensors, name)
			}
		}
		for _, path := range n.adapter.Whole {
			name := lora.NameParameter(path)
			if module(path) {
				write(name, tensors[name])
			}
			delete(tensors, name)
		}
		if len(n.adapter.InitOffset) > 0 {
			fmt.Fprintln(h, "taken away", n.adapter.Config.Start)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(tensors)) {
		if own(name) {
			write(name, tensors[name])
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:12]), nil
}

// identity is all that a configuration says about scores, in words that stay the same: fingerprints of scorers of
// format 1 are older than format 2. Where backbone and weights lie does not matter, nor where they come from.
func (c ScorerConfig) identity() string {
	one := struct {
		Format                  int
		Backbone, Pair          string
		PairSize                []int
		Question, Answer        string
		TextLoss                string
		ScoreRange              [2]float64
		Head                    HeadConfig
		ScoreToken              string
		ScorePosition           string
		DType                   string
		ChatTemplate, EndOfTurn string
	}{
		c.Format, "", c.Pair, c.PairSize, c.Question, c.Answer, c.TextLoss, c.ScoreRange, c.Head, c.ScoreToken,
		c.ScorePosition, c.DType, c.ChatTemplate, c.EndOfTurn,
	}
	text := fmt.Sprintf("%+v", one)
	if c.Layout != "" { // younger than format 2
		text += " Layout:" + c.Layout
	}
	if c.Judge.empty() {
		return text
	}
	j := c.Judge
	j.Weights, j.Origin = "", nil
	raw, err := json.Marshal(j)
	return fmt.Sprint(text, string(raw), err)
}

// BackboneFingerprint identifies the backbone; see Fingerprint.
func (n *network) BackboneFingerprint() (string, error) {
	return Fingerprint(n.backbone.Dir, n.backbone.Weights)
}

// describing are the files of a checkpoint, besides its weights, that what it computes depends on.
var describing = []string{
	"config.json",
	"tokenizer.json",
	"tokenizer_config.json",
	"special_tokens_map.json",
	"added_tokens.json",
	"chat_template.json",
	"chat_template.jinja",
	"preprocessor_config.json",
	"processor_config.json",
	checkpoints.IndexFile,
}

// Fingerprint identifies a checkpoint by the whole content of its files. 16 GB are read once, at about a gigabyte a
// second and core; after that the system's word that a file has not changed will do: see [store.Files]. Weights that
// are absent do not count.
func Fingerprint(dir string, w *checkpoints.Weights) (string, error) {
	var parts, paths []string
	for _, name := range describing {
		k, err := store.FileDigest(filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return "", err
		}
		parts = append(parts, name, k.String())
	}
	if w.Dir() != dir { // weights of their own: their index says which tensors of a file count
		switch k, err := store.FileDigest(filepath.Join(w.Dir(), checkpoints.IndexFile)); {
		case err == nil:
			parts = append(parts, "weights", k.String())
		case !errors.Is(err, fs.ErrNotExist):
			return "", err
		}
	}
	for _, s := range w.Shards() {
		paths = append(paths, s.Path())
		parts = append(parts, s.Name)
	}
	sums := make([]store.Key, len(paths))
	err := workers.Each(len(paths), 4, func(i int) (err error) {
		sums[i], err = store.FileDigest(paths[i])
		return err
	})
	for _, k := range sums {
		parts = append(parts, k.String())
	}
	return store.KeyOf(parts...).String()[:24], err
}

var _ Weights = (*checkpoints.Weights)(nil)
