// Package batch turns samples into inputs of graphs.
//
// A [Sample] is an edit as tokens and pictures. [Limits.Batches] sorts samples into runs of similar length; samples
// that start with the same tokens and pictures run together. [Packer.Pack] puts the samples of a run one after the
// other, without padding between sequences of one group:
//
//	samples -> spans (what of each is read, starting at which row) -> prefixes split off -> groups of equal shape
//	-> [Inputs]: text_ids, order, position_ids, group sizes, selected rows, targets
//
// Package nn defines what the rows of a packed batch mean to attention (nn.Packing).
package batch

import (
	"cmp"
	"fmt"
	"slices"
	"sort"

	"gorgonia.org/tensor"

	"assay/model/backbone"
	"assay/model/nn"
)

// Names of a batch's inputs to scorers' graphs, in addition to the names in package nn.
const (
	InScoreRows   = "score_rows"   // [examples] int64: selected rows whose states are read
	InTargetScore = "target_score" // [targets, 1] float: 1 if the target is the score token
)

// Inputs is a batch as graph inputs.
type Inputs struct {
	Feeds    map[string]*tensor.Dense
	Groups   int
	Follows  []int     // of the groups, see Packing; nil: none follows another
	Step     bool      // see Packer
	Order    []int     // order[i] is the sample at place i of the packed batch
	Rows     int       // rows that go through the products
	Targets  [][]Range // text targets of each place; nil without loss
	Shares   []float64 // of each place: Sample.Share
	Pictures []*backbone.Picture
}

// Range is a part of a vector.
type Range struct{ First, N int }

// TargetCount returns the number of text targets at a place.
func (p *Inputs) TargetCount(place int) (n int) {
	for _, s := range p.Targets[place] {
		n += s.N
	}
	return n
}

// AllTargets returns the number of text targets of all places.
func (p *Inputs) AllTargets() (n int) {
	for place := range p.Targets {
		n += p.TargetCount(place)
	}
	return n
}

// Packer describes what a batch is packed for.
type Packer struct {
	Vocab  int64 // id of the score token
	Before bool  // read the state before the score token
	Table  bool  // the score token, if there is one, is a row of the embedding table
	Loss   bool  // keep what the text loss needs; otherwise nothing after the score token is read
	All    bool  // text loss over all tokens
	Even   bool  // one group of padded samples, so that one graph serves all batches: see even
	Share  int   // minimum number of samples with a prefix for it to become a separate sequence; 0: it never does
	Slack  int   // maximum rows of padding at a sample's end to put it in a group with longer ones
	Step   bool  // values are kept for a backward pass
}

// SmallSlack is the slack of training small models.
const SmallSlack = 8

// branchSlack limits the padding of a branch to one part in branchSlack of its own rows.
const branchSlack = 16

// Span is the part of a sample that enters the graph. Tokens and rows count from the sample's start.
type Span struct {
	Length    int // tokens read
	Filled    int // tokens including padding
	First     int // first selected row
	Selected  int // rows selected
	ScorePos  int // row whose state is the score's
	Index     int // in the batch
	Predicted int // text targets

	From     int  // tokens that are in the prefix
	prefix   int  // for a branch: which prefix of the batch, starting at 1; 0: none
	IsPrefix bool // it is a prefix of the sample and of others
}

func (s *Span) rows() int { return s.Filled - s.From }

// Span returns the part of sample i of a batch that enters the graph.
func (o Packer) Span(s *Sample, i int) Span {
	at := s.ScoreIndex
	if o.Before {
		at--
	}
	switch {
	case !o.Loss: // Causal: what follows cannot change the score.
		// Two rows are read, so that no product has a single row, which is summed in another order than many.
		return Span{Length: at + 1, First: at - 1, Selected: 2, ScorePos: at, Index: i}
	case o.All: // the last token predicts nothing
		n := len(s.IDs) - 1
		return Span{
			Length:    n,
			First:     0,
			Selected:  n,
			ScorePos:  at,
			Index:     i,
			Predicted: n,
		}
	}
	n := len(s.IDs) - 1
	first := s.AnswerStart - 1
	return Span{
		Length:    n,
		First:     first,
		Selected:  n - first,
		ScorePos:  at,
		Index:     i,
		Predicted: n - first,
	}
}

// Pack puts samples one after the other, shortest first, in groups of equal shape (see Packing); prefixes come first.
func (o Packer) Pack(samples []*Sample, positions func(*Sample) [][]int64) (*Inputs, error) {
	spans := make([]Span, len(samples))
	for i, s := range samples {
		spans[i] = o.Span(s, i)
		if spans[i].ScorePos >= spans[i].Length {
			return nil, fmt.Errorf("the score token is the last token: there is nothing to predict after it")
		}
	}
	spans = o.SharePrefixes(spans, samples)
	if o.Even {
		even(spans)
	} else {
		o.Level(spans)
	}
	sort.SliceStable(spans, func(a, b int) bool { return spans[a].less(&spans[b]) })
	p := &Inputs{Feeds: map[string]*tensor.Dense{}, Step: o.Step}
	var textTokens int
	for _, s := range spans {
		if !s.IsPrefix {
			p.Order, p.Shares = append(p.Order, s.Index), append(p.Shares, cmp.Or(samples[s.Index].Share, 1))
		}
		for _, id := range samples[s.Index].IDs[s.From:s.Length] {
			if id != o.Vocab {
				textTokens++
			}
		}
		p.Rows += s.rows()
		textTokens += s.Filled - s.Length
		for _, q := range s.pictures(samples[s.Index]) {
			textTokens -= q.Tokens
			p.Pictures = append(p.Pictures, q)
		}
	}
	if err := o.FillRows(p, spans, samples, textTokens, positions); err != nil {
		return nil, err
	}
	o.FillGroups(p, spans)
	if o.Loss {
		o.fillTargets(p, spans, samples)
	}
	return p, nil
}

// less orders the spans of a batch: prefixes first, then samples without a prefix, then branches, each by shape.
func (s *Span) less(t *Span) bool {
	if s.IsPrefix != t.IsPrefix {
		return s.IsPrefix
	}
	for _, by := range [][2]int{{s.From, t.From}, {s.Filled, t.Filled}, {s.Selected, t.Selected}} {
		if by[0] != by[1] {
			return by[0] < by[1]
		}
	}
	return false
}

// Level chooses the length to which each sample is padded: the length of a longer sample of the same group, at most
// slack rows more. After a prefix, a step may also pad by 1/branchSlack of the branch's own rows. A small model
// spends more time on a group than on a few more rows, and any model opens fewer graphs: see stepParts.
func (o Packer) Level(spans []Span) {
	type kind struct {
		selected, from int
		leads          bool
	}
	longest := map[kind]int{}
	order := make([]int, len(spans))
	for i := range order {
		order[i] = i
	}
	sort.SliceStable(order, func(a, b int) bool { return spans[order[a]].Length > spans[order[b]].Length })
	for _, i := range order {
		s := &spans[i]
		k, slack := kind{s.Selected, s.From, s.IsPrefix}, o.Slack
		switch {
		case s.IsPrefix: // a branch continues where its prefix ends
			slack = 0
		case o.Step && s.prefix > 0:
			slack = max(slack, (longest[k]-s.From)/branchSlack)
		}
		if top := longest[k]; top-s.Length > slack || top == 0 {
			longest[k] = s.Length
		}
		s.Filled = longest[k]
	}
}

// even makes spans alike: all are padded to one length, and the same number of rows of each is selected. A GPU needs
// the rows of many sequences in one product to be busy, and a second graph would need its own weights there.
func even(spans []Span) {
	length, selected := 0, 0
	for _, s := range spans {
		if !s.IsPrefix {
			selected = max(selected, s.Selected)
		}
	}
	for _, s := range spans {
		if !s.IsPrefix {
			length = max(length, s.First+selected)
		}
	}
	for i := range spans {
		s := &spans[i]
		if s.Filled = s.Length; !s.IsPrefix {
			s.Filled, s.Selected = length, selected
		}
	}
}

// FillRows writes text ids, where each row of the packed batch comes from, and its position.
func (o Packer) FillRows(
	p *Inputs, spans []Span, samples []*Sample, textTokens int, positions func(*Sample) [][]int64,
) error {
	ids := make([]int64, 0, textTokens)
	order, members := make([]int64, 0, p.Rows), make([]int64, 0, p.Rows)
	var axes, prefix [][]int64
	image, place := textTokens+len(p.Order), 0
	if o.Table {
		image = textTokens
	}
	for _, sp := range spans {
		s := samples[sp.Index]
		next, picture := 0, len(s.Pictures)-len(sp.pictures(s)) // end of the picture we are in, next picture
		if sp.IsPrefix {
			picture = 0
		}
		for pos := sp.From; pos < sp.Length; pos++ {
			id := s.IDs[pos]
			if picture < len(s.Pictures) && pos == s.Tokens.Pictures[picture] {
				next = pos + s.Pictures[picture].Tokens
				picture++
			}
			switch {
			case pos < next:
				order = append(order, int64(image))
				image++
			case id == o.Vocab:
				order = append(order, int64(textTokens+place))
			default:
				order = append(order, int64(len(ids)))
				ids = append(ids, id)
			}
		}
		axis := positions(s)
		if axes == nil {
			axes = make([][]int64, len(axis))
		}
		if sp.IsPrefix {
			prefix = append(prefix, axis...)
		}
		if err := sp.appendPositions(axes, axis, prefix); err != nil {
			return err
		}
		members = append(members, slices.Repeat([]int64{int64(s.Member)}, sp.rows())...)
		for range sp.Filled - sp.Length { // nothing attends to these rows: they are last
			order = append(order, int64(len(ids)))
			ids = append(ids, 0)
		}
		if !sp.IsPrefix {
			place++
		}
	}
	p.Feeds[nn.InTextIDs], p.Feeds[nn.InOrder] = Vector(ids), Vector(order)
	p.Feeds[nn.InPositions], p.Feeds[nn.InMembers] = Stack(axes), Vector(members)
	return nil
}

// appendPositions appends a span's part of the sample's positions, axis, to the batch's positions on each axis; prefix
// holds the positions of the prefixes.
func (sp *Span) appendPositions(axes, axis, prefix [][]int64) error {
	for a := range axis {
		if sp.prefix > 0 && !slices.Equal(axis[a][:sp.From], prefix[(sp.prefix-1)*len(axis)+a][:sp.From]) {
			return fmt.Errorf("internal error, please report it: two edits with one prefix have different positions in it")
		}
		axes[a] = append(axes[a], axis[a][sp.From:sp.Length]...)
		axes[a] = append(axes[a], make([]int64, sp.Filled-sp.Length)...)
	}
	return nil
}

// FillGroups writes the groups' sizes and the rows that the last layer returns.
func (o Packer) FillGroups(p *Inputs, spans []Span) {
	var rows, lengths, selectRows, selectEach, selects, places, scores []int64
	var prefixes [][]int64
	offset := 0
	leading := o.prefixPlaces(spans)
	for i, s := range spans {
		if i == 0 || !s.alike(&spans[i-1]) {
			rows, selectRows = append(rows, 0), append(selectRows, 0)
			lengths, selectEach = append(lengths, int64(s.rows())), append(selectEach, int64(s.Selected))
			prefixes, p.Follows = append(prefixes, nil), append(p.Follows, -1)
		}
		g := len(rows) - 1
		rows[g] += int64(s.rows())
		selectRows[g] += int64(s.Selected)
		if s.prefix > 0 {
			at := leading[s.prefix-1]
			p.Follows[g], prefixes[g] = at.group, append(prefixes[g], int64(at.sequence))
		}
		if !s.IsPrefix {
			scores = append(scores, int64(len(selects)+s.ScorePos-s.First))
		}
		for r := s.First; r < s.First+s.Selected; r++ {
			selects, places = append(selects, int64(offset+r-s.From)), append(places, int64(r))
		}
		offset += s.rows()
	}
	p.Groups = len(rows)
	p.Feeds["group_rows"], p.Feeds["group_lengths"], p.Feeds[InScoreRows] = Vector(rows), Vector(lengths), Vector(scores)
	n := 0 // groups of prefixes, which have no selected rows
	if len(leading) == 0 {
		p.Follows = nil
	} else {
		n = leading[len(leading)-1].group + 1
	}
	for g, v := range prefixes {
		if v != nil {
			p.Feeds[nn.PrefixesOf(g)] = Vector(v)
		}
	}
	if !(o.Loss && o.All) {
		p.Feeds["select"], p.Feeds["select_place"] = Vector(selects), Vector(places)
		p.Feeds["group_select_rows"], p.Feeds["group_select_each"] = Vector(selectRows[n:]), Vector(selectEach[n:])
	}
	o.fillSegments(p, spans)
}

// fillTargets writes the targets of the text loss: every selected row predicts the token after it.
func (o Packer) fillTargets(p *Inputs, spans []Span, samples []*Sample) {
	var predict, ids []int64
	var isScore []float32
	var shared []Range // of each prefix
	offset := 0
	for _, s := range spans {
		own := Range{len(predict), s.Predicted}
		for k := range s.Predicted {
			id, score := samples[s.Index].IDs[s.First+k+1], float32(0)
			if id == o.Vocab {
				id, score = 0, 1 // any row of the table: the score token's logit is computed separately
			}
			predict, ids, isScore = append(predict, int64(offset+k)), append(ids, id), append(isScore, score)
		}
		switch {
		case s.IsPrefix:
			shared = append(shared, own)
		case s.prefix > 0 && shared[s.prefix-1].N > 0:
			p.Targets = append(p.Targets, []Range{shared[s.prefix-1], own})
		default:
			p.Targets = append(p.Targets, []Range{own})
		}
		offset += s.Selected
	}
	p.Feeds[nn.InPredict], p.Feeds[nn.InTargets] = Vector(predict), Vector(ids)
	p.Feeds[InTargetScore] = tensor.New(tensor.WithShape(len(isScore), 1), tensor.WithBacking(isScore))
}

// Stack joins axes of one length into [axes, length].
func Stack(axes [][]int64) *tensor.Dense {
	return tensor.New(tensor.WithShape(len(axes), len(axes[0])), tensor.WithBacking(slices.Concat(axes...)))
}

// Vector is a tensor [len(v)].
func Vector[T int64 | float32](v []T) *tensor.Dense {
	return tensor.New(tensor.WithShape(len(v)), tensor.WithBacking(v))
}

// TokenWeights returns token weights that make the text loss of every sample the mean over its targets, times its share
// and weight. A prefix is part of all samples that follow it.
func (p *Inputs) TokenWeights(weight float64) *tensor.Dense {
	each := make([]float64, p.Feeds[nn.InTargets].DataSize())
	for place := range p.Order {
		for _, s := range p.Targets[place] {
			for i := s.First; i < s.First+s.N; i++ {
				each[i] += weight * p.Shares[place] / float64(p.TargetCount(place))
			}
		}
	}
	tokens := make([]float32, len(each))
	for i, w := range each {
		tokens[i] = float32(w)
	}
	return Vector(tokens)
}
