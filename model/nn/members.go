package nn

import (
	"fmt"

	"assay/lora"
	"assay/onnx"
)

// An ensemble has several members over one backbone, each with its own adapter, head and score token. Their rows go
// through every product of the backbone together. After the matrices A of all adapters, each row keeps the part of
// its own member, times the scale of that adapter:
//
//	y = W x + B (m * (A x)), A [sum of ranks, in], B [out, sum of ranks], m [rows, sum of ranks]
//
// InMembers holds the member of each row. The last layer has queries for the selected rows only, and keys for all of
// them: g.rows names the rows that a product covers.

// InMembers is the member that each row of a batch belongs to, [rows] int64.
const InMembers = "members"

// MemberPrefix returns the prefix of the tensor names of a member's head and score token.
func MemberPrefix(member int) string { return fmt.Sprintf("members.%d.", member) }

// useMembers declares the rows' members; selection names the rows that the last layer returns, "": all.
func (g *Graph) useMembers(selection string) {
	if g.Members > 0 {
		g.memberRows, g.selection = g.Input(InMembers, onnx.Int64, onnx.Dims("rows")), selection
	}
}

// membersOf returns the members of the given rows, [n]; "": all.
func (g *Graph) membersOf(rows string) string {
	if rows == "" {
		return g.memberRows
	}
	return g.once("members of "+rows, func() string {
		return g.OpA("Gather", onnx.Attrs{"axis": 0}, g.memberRows, rows)
	})
}

// once returns a value that several layers share, and builds it at the first call.
func (g *Graph) once(name string, build func() string) string {
	if g.values[name] == "" {
		g.values[name] = build()
	}
	return g.values[name]
}

// ofAllRows applies a module to all rows, within a layer whose queries are selected rows.
func (g *Graph) ofAllRows(m Module, x string) string {
	rows := g.rows
	g.rows = ""
	defer func() { g.rows = rows }()
	return m.Forward(g, x)
}

// joinedLinear is a linear layer with one adapter per member.
func (g *Graph) joinedLinear(x, key, module string) string {
	a, b := g.adapterPair(module)
	small := g.OpA("Gemm", onnx.Attrs{"transB": 1}, x, a)
	small = g.Op("Mul", small, g.branchMask(g.Adapter.Branches[module]))
	return g.OpA("Gemm", onnx.Attrs{"transB": 1}, small, b, g.product(x, key))
}

// branchMask holds, for each row, the scale of its own branch in that branch's columns and zero in the others, [rows,
// sum of ranks].
func (g *Graph) branchMask(branches []lora.Branch) string {
	return g.once(fmt.Sprint("mask ", branches, g.rows), func() string {
		width, first := 0, 0
		for _, b := range branches {
			width += b.Rank
		}
		table := make([]float64, len(branches)*width)
		for i, b := range branches {
			for k := range b.Rank {
				table[i*width+first+k] = b.Scale
			}
			first += b.Rank
		}
		of := g.Numbers(g.Compute, []int64{int64(len(branches)), int64(width)}, table...)
		return g.OpA("Gather", onnx.Attrs{"axis": 0}, of, g.membersOf(g.rows))
	})
}

// OwnMember returns the output of its own member for each selected row, [rows, n]; parts are the outputs of each
// member for all rows.
func (g *Graph) OwnMember(parts []string) string {
	for i, x := range parts {
		parts[i] = g.Op("Unsqueeze", x, g.Ints(1))
	}
	own := g.once("own member", func() string {
		one := make([]float32, len(parts)*len(parts))
		for i := range parts {
			one[i*len(parts)+i] = 1
		}
		of := g.Floats([]int64{int64(len(parts)), int64(len(parts))}, one...)
		rows := g.OpA("Gather", onnx.Attrs{"axis": 0}, of, g.membersOf(g.selection))
		return g.Op("Unsqueeze", rows, g.Ints(2))
	})
	all := g.OpA("Concat", onnx.Attrs{"axis": 1}, parts...) // [rows, members, n]
	return g.OpA("ReduceSum", onnx.Attrs{"keepdims": 0}, g.Op("Mul", all, own), g.Ints(1))
}

// scoreTokens returns the embeddings of the score tokens at some of the selected rows, [tokens, hidden].
func (g *Graph) scoreTokens(scoreRows string, hidden int) string {
	const name = "score_token.embedding"
	if g.Members == 0 {
		row := g.Op("Unsqueeze", g.ScorerTensor(name), g.Ints(0))
		return g.Op("Expand", row, g.Shape(g.SizeOf(scoreRows, 0), hidden))
	}
	rows := make([]string, g.Members)
	for i := range rows {
		rows[i] = g.Op("Unsqueeze", g.ScorerTensor(MemberPrefix(i)+name), g.Ints(0))
	}
	members := g.OpA("Gather", onnx.Attrs{"axis": 0}, g.membersOf(g.selection), scoreRows)
	return g.OpA("Gather", onnx.Attrs{"axis": 0}, g.OpA("Concat", onnx.Attrs{"axis": 0}, rows...), members)
}
