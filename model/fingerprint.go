package model

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"assay/checkpoints"
	"assay/onnx"
)

// Fingerprint identifies a scorer's configuration, tensors and backbone.
func (e *engine) Fingerprint() string {
	return e.fingerprint(*e.config, func(string) bool { return true })
}

// StateFingerprint identifies what the hidden states at the score token depend on: all but the head.
func (e *engine) StateFingerprint() string {
	c := *e.config
	c.Head, c.ScoreRange, c.TextLoss = HeadConfig{}, [2]float64{}, ""
	return e.fingerprint(c, func(name string) bool { return !strings.HasPrefix(name, "layers.") })
}

func (e *engine) fingerprint(c ScorerConfig, counts func(name string) bool) string {
	h := sha256.New()
	c.Backbone = "" // its place does not matter
	fmt.Fprintf(h, "%+v\n", c)
	var names []string
	for n := range e.own {
		if counts(n) {
			names = append(names, n)
		}
	}
	sort.Strings(names)
	for _, n := range names {
		fmt.Fprintln(h, n)
		h.Write(onnx.Float32Bytes(e.own[n].Data().([]float32)))
	}
	io.WriteString(h, e.BackboneFingerprint())
	return hex.EncodeToString(h.Sum(nil)[:12])
}

// BackboneFingerprint identifies the backbone; see Fingerprint.
func (e *engine) BackboneFingerprint() string { return Fingerprint(e.backbone.Dir, e.backbone.Weights) }

// Fingerprint identifies a checkpoint by its configuration, its tensors' names, types and places, and samples of their
// bytes: reading 16 GB at every start would take longer than scoring a batch.
func Fingerprint(dir string, w *checkpoints.Weights) string {
	h := sha256.New()
	for _, name := range []string{"config.json", "tokenizer.json", "preprocessor_config.json"} {
		if f, err := os.Open(filepath.Join(dir, name)); err == nil {
			io.Copy(h, f)
			f.Close()
		}
	}
	for _, name := range w.Names() {
		info, _ := w.Info(name)
		fmt.Fprintln(h, info)
		if data, err := w.Bytes(name); err == nil {
			sampleBytes(h, data)
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:12])
}

// sampleBytes hashes a few stretches of a tensor, all of a small one.
func sampleBytes(w io.Writer, data []byte) {
	const stretch, places = 1 << 10, 8
	if len(data) <= stretch*places {
		w.Write(data)
		return
	}
	for i := range places {
		at := i * (len(data) - stretch) / (places - 1)
		w.Write(data[at : at+stretch])
	}
}

var _ Weights = (*checkpoints.Weights)(nil)
