package t2i

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

var blipDepth = regexp.MustCompile(`^vision_model\.encoder\.layers\.(\d+)\.`)

// depthOf returns the number of layers of the vision tower: one more than the highest that has a tensor.
func depthOf(names []string) (depth int) {
	for _, name := range names {
		if m := blipDepth.FindStringSubmatch(name); m != nil {
			if i, err := strconv.Atoi(m[1]); err == nil {
				depth = max(depth, i+1)
			}
		}
	}
	return depth
}

// checkTensors compares the tensors with those that the authors' classes have: nothing may be missing, as a layer or
// a bias would be left out, and nothing may be left over. The layers of the head are checked when they are read.
func (n *blip) checkTensors() error {
	want := map[string]bool{"text_model.embeddings.word_embeddings.weight": true,
		"text_model.embeddings.position_embeddings.weight": true, "vision_model.embeddings.class_embedding": true,
		"vision_model.embeddings.position_embedding.weight": true}
	both := func(prefix string, names ...string) {
		for _, name := range names {
			want[prefix+name+".weight"], want[prefix+name+".bias"] = true, true
		}
	}
	both("vision_model.", "embeddings.patch_embedding", "post_layernorm")
	both("text_model.", "embeddings.LayerNorm")
	for i := range n.depth {
		both(fmt.Sprintf("vision_model.encoder.layers.%d.", i), "layer_norm1", "layer_norm2", "self_attn.q_proj",
			"self_attn.k_proj", "self_attn.v_proj", "self_attn.out_proj", "mlp.fc1", "mlp.fc2")
	}
	for i := range n.text.Layers {
		at := fmt.Sprintf("text_model.encoder.layer.%d.", i)
		for _, attention := range []string{"attention.", "crossattention."} {
			both(at+attention, "self.query", "self.key", "self.value", "output.dense", "output.LayerNorm")
		}
		both(at, "intermediate.dense", "output.dense", "output.LayerNorm")
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if !n.weights.Has(name) {
			return fmt.Errorf("tensor %s is missing: the weights are incomplete, or --config is another one", name)
		}
	}
	for _, name := range n.weights.Names() {
		if !want[name] && !strings.HasPrefix(name, "layers.") {
			return fmt.Errorf("tensor %s is not part of ImageReward with %d text layers: --config is another one, or the "+
				"weights are of another model", name, n.text.Layers)
		}
	}
	return nil
}
