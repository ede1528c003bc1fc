// Package nn builds the graphs of vision-language models: a [Graph] turns layers into ONNX nodes over the parameters of
// a checkpoint.
//
// What flows through it, with "rows" the tokens of all sequences of a batch, one after the other ([Packing]; nothing is
// padded):
//
//	text_ids, order, image features -> Embed -> x [rows, hidden]
//	position_ids -> Decoder.Rotary -> cosines and sines [1, rows, head_dim/2]
//	x -> Decoder.Forward: layers of SelfAttention and MLP -> states [selected rows, hidden]
//	states -> Logits, NLL, CrossEntropy, or the heads of a scorer
//
// A layer is a struct of [Module]s, which a family of models may replace one by one. A layer's parts are named as
// in the checkpoint ([Prefix]), and as in PEFT for adapters, which [Graph.Linear] adds if there are any.
//
// Attention has four forms that return the same numbers: over full groups of sequences (attention.go), in blocks of
// queries for long sequences (blocks.go), in pieces in training (pieces.go), and over a cache of keys and values in
// generation (cache.go, plaincache.go). Which groups use which form is the graph's [Variant]. Layers of fused
// operators (fused.go) are chosen for the entire graph, [Kernels]: one graph then serves any batch.
//
// Values between a norm and the sum after it have the type of the large products, [Graph.Compute]; norms, the rows
// that layers add to, losses and parameters are float32 ([Graph.Narrow], [Graph.Wide]).
package nn
