// Package quantize is `train quantize`: it quantizes the linear layers of a checkpoint's language model to four or
// eight bits, round to nearest, and writes them in GPTQ's layout, version 2, which other programs also read. Vision
// tower, projector, embeddings, output layer, norms and biases are copied. Shards are read and written tensor by
// tensor.
package quantize

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"assay/checkpoints"
	"assay/internal/atomicfile"
	"assay/internal/exit"
	"assay/internal/filelock"
	"assay/internal/jsonfile"
	"assay/internal/quant"
	"assay/model/backbone"
	"assay/model/nn"
	"assay/onnx"
)

// Options are the checkpoint to quantize, the format, and the new checkpoint.
type Options struct {
	Backbone  string // Hugging Face checkpoint directory
	Out       string // directory to make: complete or not at all
	Bits      int    // 4 or 8
	Block     int    // columns that share a scale: a power of two, 16 to 256
	Symmetric bool   // no zero points: the middle of the range stands for 0
	Scales    string // float32 (also ""): ONNX Runtime's own; float16: half as large, and rounded

	Total    func(bytes int64) // called before the work with the bytes of weights to read; nil: not called
	Progress func(bytes int64) // called with the bytes read since the last call; nil: not called
}

// LayerReport is the error of one layer.
type LayerReport struct {
	Name     string  `json:"name"` // of the weight
	Out      int64   `json:"out"`
	In       int64   `json:"in"`
	Relative float64 `json:"relative_error"` // |W - W'| / |W|, root of the sum of squares
	Largest  float64 `json:"largest_error"`  // largest |w - w'|
	Kept     string  `json:"kept,omitempty"` // why it is stored as it was; "": it is packed
}

// Result is the error of every layer, and the sizes before and after.
type Result struct {
	Layers []LayerReport `json:"layers"`
	Bytes  int64         `json:"bytes"`         // of all weights
	Before int64         `json:"bytes_before"`  // of all weights of the source checkpoint
	Packed int64         `json:"bytes_packed"`  // of the packed layers
	Float  int64         `json:"bytes_float32"` // of the same layers as float32
}

// Run writes the checkpoint, with one layer at a time in memory. Files of an interrupted run are removed, by itself or
// by the next run.
func Run(ctx context.Context, o Options) (*Result, error) {
	if o.Bits != 4 && o.Bits != 8 {
		return nil, exit.Usagef("--bits %d: must be 4 or 8", o.Bits)
	}
	if o.Block < 16 || o.Block > 256 || o.Block&(o.Block-1) != 0 {
		return nil, exit.Usagef("--block %d: must be a power of two from 16 to 256 (32 and 128 are usual)", o.Block)
	}
	if o.Scales != "" && o.Scales != "float32" && o.Scales != "float16" {
		return nil, exit.Usagef("--scales %s: must be float32 or float16", o.Scales)
	}
	b, err := backbone.OpenBackbone(o.Backbone)
	if err != nil {
		return nil, err
	}
	defer b.Close()
	config, err := newConfig(o)
	if err != nil {
		return nil, err
	}
	r := &run{Options: o, ctx: ctx, w: b.Weights, layers: languageLayers(b), result: &Result{}}
	for _, name := range b.Weights.Names() {
		info, _ := b.Weights.Info(name)
		r.result.Before += info.Length
	}
	if err := r.checkPacks(); err != nil {
		return nil, err
	}
	unlock, err := lock(o.Out)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if o.Total != nil {
		o.Total(r.result.Before)
	}
	err = atomicfile.WriteDir(o.Out, func(dir string) error {
		if err := checkpoints.CopyCompanions(o.Backbone, dir); err != nil {
			return err
		}
		if err := r.shards(dir); err != nil {
			return err
		}
		return atomicfile.WriteBytes(filepath.Join(dir, "config.json"), config)
	})
	if errors.Is(err, context.Canceled) {
		return nil, fmt.Errorf("interrupted, nothing was written to %s: %w", o.Out, err)
	}
	return r.result, err
}

// languageLayers are the weights of the language model's linear layers.
func languageLayers(b *backbone.Backbone) map[string]bool {
	layers := map[string]bool{}
	for _, p := range b.Parameters() {
		if strings.HasPrefix(p.Name, b.Decoder().Key+"layers.") && p.Role == nn.RoleWeight && len(p.Shape) == 2 {
			layers[p.Name] = true
		}
	}
	return layers
}

// checkPacks rejects a checkpoint of which no layer can be packed: a packed checkpoint must have packed layers.
func (r *run) checkPacks() error {
	kept := ""
	for _, name := range r.w.Names() {
		if !r.layers[name] {
			continue
		}
		info, _ := r.w.Info(name)
		why := r.why(info)
		if why == "" {
			return nil
		}
		if kept == "" {
			kept = fmt.Sprintf("%s: %s", name, why)
		}
	}
	kept = cmp.Or(kept, "it stores none")
	return exit.Usagef("%s: no linear layer of the language model can be packed in %d bits, so nothing is written (%s)",
		r.Backbone, r.Bits, kept)
}

// lock keeps a second process from writing the same folder.
func lock(out string) (unlock func(), err error) {
	out = filepath.Clean(out)
	if err := os.MkdirAll(filepath.Dir(out), 0o777); err != nil {
		return nil, err
	}
	f, err := filelock.Take(filepath.Join(filepath.Dir(out), "."+filepath.Base(out)+".lock"))
	if errors.Is(err, filelock.ErrHeld) {
		return nil, fmt.Errorf("another process is writing %s: wait for it, or use another --out", out)
	} else if err != nil {
		return nil, err
	}
	return func() { os.Remove(f.Name()); f.Close() }, nil
}

// newConfig returns config.json with a quantization_config appended.
func newConfig(o Options) ([]byte, error) {
	path := filepath.Join(o.Backbone, "config.json")
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	had, _, err := quant.Split(text)
	if err != nil {
		return nil, err
	}
	if had != nil {
		return nil, exit.Usagef("%s is already packed (quant_method %s): quantise the checkpoint that it was made from",
			o.Backbone, had.Method)
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(text, &fields); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if _, null := fields["quantization_config"]; null {
		return nil, fmt.Errorf("%s: quantization_config is null: remove the key", path)
	}
	own, err := json.MarshalIndent(map[string]any{
		"quant_method":      "gptq",
		"checkpoint_format": "gptq_v2",
		"bits":              o.Bits,
		"group_size":        o.Block,
		"sym":               o.Symmetric,
		"desc_act":          false,
		"lm_head":           false,
		"meta":              map[string]any{"quantizer": []string{"assay"}, "rounding": "nearest"},
	}, "  ", "  ")
	if err != nil {
		return nil, err
	}
	end := strings.LastIndexByte(string(text), '}')
	front := strings.TrimRight(string(text[:end]), " \t\r\n")
	return fmt.Appendf(nil, "%s,\n  \"quantization_config\": %s\n}\n", front, own), nil
}

// run is the work on all shards.
type run struct {
	Options
	ctx    context.Context
	w      *checkpoints.Weights
	layers map[string]bool
	result *Result
}

// shards writes one file for each of the checkpoint's, and the index.
func (r *run) shards(dir string) error {
	index := map[string]string{}
	for _, s := range r.w.Shards() {
		if err := r.shard(s, filepath.Join(dir, s.Name), index); err != nil {
			return err
		}
	}
	if r.w.Shards()[0].Name == checkpoints.SingleFile {
		return nil
	}
	return jsonfile.Write(filepath.Join(dir, checkpoints.IndexFile), map[string]any{
		"metadata":   map[string]any{"total_size": r.result.Bytes},
		"weight_map": index,
	})
}

func (r *run) shard(s *checkpoints.Shard, path string, index map[string]string) error {
	var infos []checkpoints.TensorInfo
	for _, name := range s.Names() {
		if r.w.ShardOf(name) != s {
			continue // the index has it in another shard
		}
		info, _ := s.Info(name)
		infos = append(infos, r.becomes(info)...)
	}
	for _, info := range infos {
		index[info.Name] = s.Name
	}
	out, err := checkpoints.NewWriter(path, infos, s.Metadata())
	if err != nil {
		return err
	}
	for _, name := range s.Names() {
		if r.w.ShardOf(name) != s {
			continue
		}
		if err := r.tensor(s, name, out); err != nil {
			out.Abort()
			return err
		}
	}
	s.Forget()
	return out.Close()
}

// why returns the reason why a layer is not quantized, "" if it is.
func (r *run) why(info checkpoints.TensorInfo) string {
	each := int64(32 / r.Bits)
	if info.Shape[0]%each != 0 || info.Shape[1]%each != 0 {
		return fmt.Sprintf("%d x %d values do not fill words of %d", info.Shape[0], info.Shape[1], each)
	}
	return ""
}

func (r *run) scaleType() onnx.DType {
	if r.Scales == "float16" {
		return onnx.Float16
	}
	return onnx.Float
}

// becomes returns the tensors that are written for a source tensor.
func (r *run) becomes(info checkpoints.TensorInfo) []checkpoints.TensorInfo {
	if !r.layers[info.Name] || r.why(info) != "" {
		return []checkpoints.TensorInfo{info}
	}
	base := strings.TrimSuffix(info.Name, ".weight")
	out, in, each := info.Shape[0], info.Shape[1], int64(32/r.Bits)
	groups := (in + int64(r.Block) - 1) / int64(r.Block)
	return []checkpoints.TensorInfo{
		{Name: base + ".qweight", Type: onnx.Int32, Shape: []int64{in / each, out}},
		{Name: base + ".qzeros", Type: onnx.Int32, Shape: []int64{groups, out / each}},
		{Name: base + ".scales", Type: r.scaleType(), Shape: []int64{groups, out}},
		{Name: base + ".g_idx", Type: onnx.Int32, Shape: []int64{in}},
	}
}

// tensor writes one tensor, rounded or as it is.
func (r *run) tensor(s *checkpoints.Shard, name string, out *checkpoints.Writer) error {
	if r.ctx.Err() != nil {
		return context.Cause(r.ctx)
	}
	info, _ := s.Info(name)
	data, err := s.Bytes(name)
	if err != nil {
		return err
	}
	defer s.Forget()
	if r.Progress != nil {
		defer r.Progress(info.Length)
	}
	if !r.layers[name] {
		r.result.Bytes += info.Length
		return out.Write(name, data)
	}
	l := LayerReport{Name: name, Out: info.Shape[0], In: info.Shape[1], Kept: r.why(info)}
	if l.Kept != "" {
		r.result.Layers = append(r.result.Layers, l)
		r.result.Bytes += info.Length
		return out.Write(name, data)
	}
	how := quant.Quantizer{Bits: r.Bits, Block: r.Block, Symmetric: r.Symmetric, Half: r.scaleType() == onnx.Float16}
	rounded, loss, err := how.RoundStored(data, info.Type, int(l.Out), int(l.In))
	if err != nil {
		return fmt.Errorf("%s: tensor %q: %w", s.Path(), name, err)
	}
	l.Relative, l.Largest = loss.Relative, loss.Largest
	r.result.Layers = append(r.result.Layers, l)
	r.result.Float += 4 * l.Out * l.In
	return r.write(out, strings.TrimSuffix(name, ".weight"), rounded.GPTQ())
}

// write writes the four tensors of a packed layer.
func (r *run) write(out *checkpoints.Writer, base string, parts quant.GPTQ) error {
	index := make([]byte, 0, 4*parts.In)
	for k := range parts.In {
		index = binary.LittleEndian.AppendUint32(index, uint32(k/r.Block))
	}
	scales, err := checkpoints.AppendFloat32s(nil, r.scaleType(), parts.Scales)
	if err != nil {
		return err
	}
	for name, data := range map[string][]byte{".qweight": parts.Weight, ".qzeros": parts.Zeros,
		".scales": scales, ".g_idx": index} {
		if err := out.Write(base+name, data); err != nil {
			return err
		}
		r.result.Bytes += int64(len(data))
		r.result.Packed += int64(len(data))
	}
	return nil
}
