package exec

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"gorgonia.org/tensor"

	"assay/lora"
	"assay/model/backbone"
	"assay/model/nn"
	"assay/onnx"
)

// BackboneFingerprint identifies the backbone; see Fingerprint.
func (n *Network) BackboneFingerprint() (string, error) {
	return backbone.Fingerprint(n.Backbone.Dir, n.Backbone.Weights)
}

// Arithmetic describes how values are computed: other arithmetic does not give the same bits.
func (n *Network) Arithmetic() string {
	device := "cpu "
	if n.OnCUDA() {
		device = "cuda "
	}
	switch {
	case n.Plan.Kernels == nn.Fused:
		return device + n.DType + ", fused"
	case n.OnCUDA() && n.DType == "bfloat16":
		return "cuda bfloat16, from norm to sum" // more of a layer was float32 once
	}
	return device + n.DType
}

// Fingerprint identifies a configuration and the backbone. It covers the scorer's own tensors that count, by their
// names, and the adapter's layers that count, by their modules, with their scales (they follow from alpha). nil: all
// count.
func (n *Network) Fingerprint(identity string, own, module func(name string) bool) (string, error) {
	all := func(string) bool { return true }
	if own == nil {
		own = all
	}
	if module == nil {
		module = all
	}
	backbone, err := n.BackboneFingerprint()
	if err != nil {
		return "", err
	}
	h := sha256.New()
	fmt.Fprintf(h, "%s\n%s\n", identity, backbone)
	tensors := maps.Clone(n.Tensors)
	write := func(what string, t *tensor.Dense) {
		fmt.Fprintln(h, what, t.Shape())
		h.Write(onnx.Float32Bytes(t.Data().([]float32)))
	}
	if n.Adapter != nil {
		for _, t := range n.Adapter.Targets {
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
		if n.Adapter.Branches != nil {
			fmt.Fprintln(h, "branches", n.Adapter.Branches) // printed by module
		}
		for _, path := range n.Adapter.Whole {
			name := lora.NameParameter(path)
			if module(path) {
				write(name, tensors[name])
			}
			delete(tensors, name)
		}
		if len(n.Adapter.InitOffset) > 0 {
			fmt.Fprintln(h, "taken away", n.Adapter.Config.Start)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(tensors)) {
		if own(name) {
			write(name, tensors[name])
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:12]), nil
}

// NoScorer is the configuration in fingerprints without a scorer.
const NoScorer = "{Format:0 Backbone: Pair: PairSize:[] Question: Answer: TextLoss: ScoreRange:[0 0] " +
	"Head:{Hidden:[] Activation: Kind: Values:[]} ScoreToken: ScorePosition: DType: ChatTemplate: EndOfTurn:}"

// featurePrint identifies what image features depend on besides the picture: the backbone, and an adapter's layers on
// its vision side.
func (n *Network) featurePrint(identity string) (string, error) {
	print, err := n.Fingerprint(identity, func(string) bool { return false }, func(module string) bool {
		return !strings.HasPrefix(module, n.Backbone.Decoder().Module)
	})
	return print + " " + n.Arithmetic(), err
}
