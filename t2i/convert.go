package t2i

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"assay/checkpoints"
	"assay/onnx"
)

// piece describes how a stored tensor, or a third of its rows, is converted.
type piece struct {
	name       string // after the conversion
	third      int    // 1 to 3: query, key or value, which are stored concatenated; 0: all of it
	transposed bool   // stored as [in, out], needed as [out, in]
	flat       bool   // leading dimensions of 1 are dropped
}

// convert writes the tensors of a file under other names. pieces returns how each is converted; nil: it is left out.
func convert(f checkpoints.TensorFile, to string, pieces func(name string) ([]piece, error)) error {
	type job struct {
		piece
		from string
	}
	var infos []checkpoints.TensorInfo
	jobs := map[string]job{}
	for _, from := range f.Names() {
		all, err := pieces(from)
		if err != nil {
			return err
		}
		for _, p := range all {
			info, _ := f.Info(from)
			info.Name = p.name
			if info.Shape, err = p.shapeOf(info.Shape); err != nil {
				return fmt.Errorf("%s: %w", from, err)
			}
			if _, twice := jobs[p.name]; twice {
				return fmt.Errorf("%s: another tensor also becomes %s", from, p.name)
			}
			infos, jobs[p.name] = append(infos, info), job{p, from}
		}
	}
	w, err := checkpoints.NewWriter(to, infos, map[string]string{"format": "pt"})
	if err != nil {
		return err
	}
	for _, info := range infos {
		raw, err := f.Bytes(jobs[info.Name].from)
		if err == nil {
			stored, _ := f.Info(jobs[info.Name].from)
			job := jobs[info.Name]
			err = w.Write(info.Name, job.bytesOf(raw, stored.Shape, stored.Type))
		}
		if err != nil {
			w.Abort()
			return err
		}
	}
	return w.Close()
}

// shapeOf returns the shape of the piece of a tensor.
func (p *piece) shapeOf(of []int64) ([]int64, error) {
	if p.flat {
		for len(of) > 1 && of[0] == 1 {
			of = of[1:]
		}
	}
	switch {
	case p.third > 0 && (len(of) == 0 || of[0]%3 != 0):
		return nil, fmt.Errorf("shape %v: want rows of query, key and value", of)
	case p.third > 0:
		of[0] /= 3
	case p.transposed && len(of) != 2:
		return nil, fmt.Errorf("shape %v: want a matrix", of)
	case p.transposed:
		of = []int64{of[1], of[0]}
	}
	return of, nil
}

// bytesOf extracts the piece from the bytes of a tensor.
func (p *piece) bytesOf(raw []byte, shape []int64, t onnx.DType) []byte {
	switch {
	case p.third > 0:
		n := len(raw) / 3
		return raw[(p.third-1)*n : p.third*n]
	case p.transposed:
		rows, columns, size := int(shape[0]), int(shape[1]), t.Size()
		out := make([]byte, len(raw))
		for i := range rows {
			for j := range columns {
				copy(out[(j*rows+i)*size:], raw[(i*columns+j)*size:(i*columns+j+1)*size])
			}
		}
		return out
	}
	return raw
}

// thirds returns query, key and value of a layer's joint projection.
func thirds(prefix, suffix string) []piece {
	return []piece{
		{name: prefix + "q_proj." + suffix, third: 1},
		{name: prefix + "k_proj." + suffix, third: 2},
		{name: prefix + "v_proj." + suffix, third: 3},
	}
}

// Names of open_clip's tensors, and their names in transformers.
var (
	openCLIPNames = map[string]piece{
		"visual.class_embedding":      {name: "vision_model.embeddings.class_embedding"},
		"visual.positional_embedding": {name: "vision_model.embeddings.position_embedding.weight"},
		"visual.conv1.weight":         {name: "vision_model.embeddings.patch_embedding.weight"},
		"visual.ln_pre.weight":        {name: "vision_model.pre_layrnorm.weight"},
		"visual.ln_pre.bias":          {name: "vision_model.pre_layrnorm.bias"},
		"visual.ln_post.weight":       {name: "vision_model.post_layernorm.weight"},
		"visual.ln_post.bias":         {name: "vision_model.post_layernorm.bias"},
		"visual.proj":                 {name: "visual_projection.weight", transposed: true},
		"token_embedding.weight":      {name: "text_model.embeddings.token_embedding.weight"},
		"positional_embedding":        {name: "text_model.embeddings.position_embedding.weight"},
		"ln_final.weight":             {name: "text_model.final_layer_norm.weight"},
		"ln_final.bias":               {name: "text_model.final_layer_norm.bias"},
		"text_projection":             {name: "text_projection.weight", transposed: true},
		"logit_scale":                 {name: "logit_scale"},
	}
	openCLIPLayer = regexp.MustCompile(`^(visual\.)?transformer\.resblocks\.(\d+)\.(.+)$`)
	openCLIPParts = strings.NewReplacer("ln_1.", "layer_norm1.", "ln_2.", "layer_norm2.", "attn.out_proj.",
		"self_attn.out_proj.", "mlp.c_fc.", "mlp.fc1.", "mlp.c_proj.", "mlp.fc2.")
)

// openCLIPPieces renames the tensors of an open_clip CLIP to their names in transformers.
func openCLIPPieces(name string) ([]piece, error) {
	name = strings.TrimPrefix(name, "module.") // from training on several devices
	if name == "attn_mask" {
		return nil, nil
	}
	if p, ok := openCLIPNames[name]; ok {
		return []piece{p}, nil
	}
	m := openCLIPLayer.FindStringSubmatch(name)
	if m == nil {
		return nil, fmt.Errorf("the tensor %s is not part of a CLIP of open_clip", name)
	}
	prefix := "text_model.encoder.layers." + m[2] + "."
	if m[1] != "" {
		prefix = "vision_model.encoder.layers." + m[2] + "."
	}
	if suffix, joint := strings.CutPrefix(m[3], "attn.in_proj_"); joint {
		return thirds(prefix+"self_attn.", suffix), nil
	}
	return []piece{{name: prefix + openCLIPParts.Replace(m[3])}}, nil
}

// Names of the tensors of BLIP's vision tower, and their names in package encoders.
var (
	blipNames = map[string]piece{
		"cls_token":               {name: "vision_model.embeddings.class_embedding"},
		"pos_embed":               {name: "vision_model.embeddings.position_embedding.weight", flat: true},
		"patch_embed.proj.weight": {name: "vision_model.embeddings.patch_embedding.weight"},
		"patch_embed.proj.bias":   {name: "vision_model.embeddings.patch_embedding.bias"},
		"norm.weight":             {name: "vision_model.post_layernorm.weight"},
		"norm.bias":               {name: "vision_model.post_layernorm.bias"},
	}
	blipLayer = regexp.MustCompile(`^blocks\.(\d+)\.(.+)$`)
	blipParts = strings.NewReplacer("norm1.", "layer_norm1.", "norm2.", "layer_norm2.", "attn.proj.",
		"self_attn.out_proj.")
)

// blipPieces converts the tensors that ImageReward uses: BLIP's vision tower, its text encoder and the layers after
// it. The projections of BLIP's contrastive loss are left out.
func blipPieces(name string) ([]piece, error) {
	name = strings.TrimPrefix(name, "module.")
	if text, ok := strings.CutPrefix(name, "blip.text_encoder."); ok {
		if strings.HasSuffix(text, "position_ids") {
			return nil, nil
		}
		return []piece{{name: "text_model." + text}}, nil
	}
	if head, ok := strings.CutPrefix(name, "mlp."); ok {
		return []piece{{name: head}}, nil
	}
	vision, ok := strings.CutPrefix(name, "blip.visual_encoder.")
	if !ok {
		if strings.HasPrefix(name, "blip.vision_proj.") || strings.HasPrefix(name, "blip.text_proj.") {
			return nil, nil
		}
		return nil, fmt.Errorf("the tensor %s is not part of ImageReward", name)
	}
	if p, ok := blipNames[vision]; ok {
		return []piece{p}, nil
	}
	m := blipLayer.FindStringSubmatch(vision)
	if m == nil {
		return nil, fmt.Errorf("the tensor %s is not part of BLIP's vision tower", name)
	}
	prefix := "vision_model.encoder.layers." + m[1] + "."
	if suffix, joint := strings.CutPrefix(m[2], "attn.qkv."); joint {
		return thirds(prefix+"self_attn.", suffix), nil
	}
	return []piece{{name: prefix + blipParts.Replace(m[2])}}, nil
}

// headPieces converts the layers of the aesthetic predictor: layers.N, or one linear layer.
func headPieces(name string) ([]piece, error) {
	switch {
	case strings.HasPrefix(name, "layers."):
		return []piece{{name: name}}, nil
	case name == "weight" || name == "bias":
		return []piece{{name: "layers.0." + name}}, nil
	}
	return nil, errors.New("tensor " + name + " is not part of the aesthetic predictor (layers.N.weight, layers.N.bias)")
}
