package model

import (
	"cmp"
	"fmt"
	"slices"
	"sort"

	"gorgonia.org/tensor"

	"assay/edit"
	"assay/model/nn"
	"assay/model/text"
)

// Names of inputs of scorers' graphs that a batch has, besides those of package nn.
const (
	inScoreRows   = "score_rows"   // [examples] int64: selected rows whose states are read
	inTargetScore = "target_score" // [targets, 1] float: 1 where the target is the score token
)

// Sample is one pair ready for the graph: tokens and pictures. In format 2 ScoreIndex is the state that is read.
type Sample struct {
	text.Tokens
	Pictures []*Picture

	// Share is what the mean over the sample's text targets counts in a step's text loss, relative to other samples;
	// 0: as much as any other's, 1.
	Share float64

	pass int       // index of the pass that it is made for
	rest []*Sample // of the other passes

	choices []*Sample // of joint choices: each behind the prompt
	common  int       // of a choice: tokens that it begins with as the others do
}

// Size implements [edit.Inputs]: values of pixels, without pictures that the sample before shows, too.
func (s *Sample) Size(before edit.Inputs) (n int) {
	shared := map[*float32]bool{}
	if b, ok := before.(*Sample); ok && b != nil {
		for _, p := range b.Pictures {
			if len(p.Pixels) > 0 {
				shared[&p.Pixels[0]] = true
			}
		}
	}
	for _, p := range s.Pictures {
		if len(p.Pixels) > 0 && !shared[&p.Pixels[0]] {
			n += len(p.Pixels)
		}
	}
	return n
}

// share is Share with its default.
func (s *Sample) share() float64 { return cmp.Or(s.Share, 1) }

func (s *Sample) imageTokens() int {
	n := 0
	for _, p := range s.Pictures {
		n += p.Tokens
	}
	return n
}

// packed is a batch as graph inputs.
type packed struct {
	feeds    map[string]*tensor.Dense
	groups   int
	follows  []int       // of the groups, see Packing; nil: none follows another
	step     bool        // see packing
	order    []int       // order[i] is the sample at place i of the packed batch
	rows     int         // tokens that are multiplied
	targets  [][]stretch // text targets of each place; nil without loss
	shares   []float64   // of each place: Sample.Share
	pictures []*Picture
}

// stretch is a part of a vector.
type stretch struct{ first, n int }

// targetCount is the number of text targets at a place.
func (p *packed) targetCount(place int) (n int) {
	for _, s := range p.targets[place] {
		n += s.n
	}
	return n
}

// packing says what a batch is packed for.
type packing struct {
	vocab  int64 // id of the score token
	before bool  // read the state before the score token
	table  bool  // the score token, if there is one, is a row of the embedding table
	loss   bool  // keep what the text loss needs; otherwise nothing behind the score token is looked at
	all    bool  // text loss over all tokens
	even   bool  // one group, of samples that are filled up, so that one graph serves all batches: see even
	share  int   // samples of one prefix from which on it is a sequence of its own; 0: it never is
	slack  int   // rows by which a sample may be filled up at its end to be in a group with longer ones
	step   bool  // values are kept for a backward pass
}

// smallSlack is the slack of training small models.
const smallSlack = 8

// branchSlack is the part of its own rows by which a branch may be filled up: one in so many.
const branchSlack = 16

// span is the part of a sample that enters the graph. Tokens and rows count from the sample's beginning.
type span struct {
	length    int // tokens read
	filled    int // the same with what is filled up
	first     int // first selected row
	selected  int // rows selected
	scorePos  int // row whose state is the score's
	index     int // in the batch
	predicted int // text targets

	from   int  // tokens that stand in the prefix
	prefix int  // of a branch: which prefix of the batch, from 1; 0: none
	leads  bool // it is a prefix: of the sample, and of others
}

func (s *span) rows() int { return s.filled - s.from }

func (o packing) span(s *Sample, i int) span {
	at := s.ScoreIndex
	if o.before {
		at--
	}
	switch {
	case !o.loss: // Causal: what follows cannot change the score.
		// Two rows are read, so that no product has a single row, which is summed in another order than many.
		return span{length: at + 1, first: at - 1, selected: 2, scorePos: at, index: i}
	case o.all: // the last token predicts nothing
		n := len(s.IDs) - 1
		return span{
			length:    n,
			first:     0,
			selected:  n,
			scorePos:  at,
			index:     i,
			predicted: n,
		}
	}
	n := len(s.IDs) - 1
	first := s.AnswerStart - 1
	return span{
		length:    n,
		first:     first,
		selected:  n - first,
		scorePos:  at,
		index:     i,
		predicted: n - first,
	}
}

// pack lays samples one after the other, shortest first, in groups of equal shape (see Packing); prefixes stand first.
func (o packing) pack(samples []*Sample, positions func(*Sample) [][]int64) (*packed, error) {
	spans := make([]span, len(samples))
	for i, s := range samples {
		spans[i] = o.span(s, i)
		if spans[i].scorePos >= spans[i].length {
			return nil, fmt.Errorf("the score token is the last token: there is nothing to predict after it")
		}
	}
	spans = o.branch(spans, samples)
	if o.even {
		even(spans)
	} else {
		o.level(spans)
	}
	sort.SliceStable(spans, func(a, b int) bool { return spans[a].less(&spans[b]) })
	p := &packed{feeds: map[string]*tensor.Dense{}, step: o.step}
	var textTokens int
	for _, s := range spans {
		if !s.leads {
			p.order, p.shares = append(p.order, s.index), append(p.shares, samples[s.index].share())
		}
		for _, id := range samples[s.index].IDs[s.from:s.length] {
			if id != o.vocab {
				textTokens++
			}
		}
		p.rows += s.rows()
		textTokens += s.filled - s.length
		for _, q := range s.pictures(samples[s.index]) {
			textTokens -= q.Tokens
			p.pictures = append(p.pictures, q)
		}
	}
	if err := o.fillRows(p, spans, samples, textTokens, positions); err != nil {
		return nil, err
	}
	o.fillGroups(p, spans)
	if o.loss {
		o.fillTargets(p, spans, samples)
	}
	return p, nil
}

// less orders the spans of a batch: prefixes first, then what follows none, then branches, each by its shape.
func (s *span) less(t *span) bool {
	if s.leads != t.leads {
		return s.leads
	}
	for _, by := range [][2]int{{s.from, t.from}, {s.filled, t.filled}, {s.selected, t.selected}} {
		if by[0] != by[1] {
			return by[0] < by[1]
		}
	}
	return false
}

// level decides what length each sample is padded to: that of a longer one of the same group, at most slack rows away.
// Behind a prefix it is at most a branchSlack-th of its own rows. A small model spends more time on a group than on
// some more rows, and any model opens fewer graphs: see stepParts.
func (o packing) level(spans []span) {
	type kind struct {
		selected, from int
		leads          bool
	}
	longest := map[kind]int{}
	order := make([]int, len(spans))
	for i := range order {
		order[i] = i
	}
	sort.SliceStable(order, func(a, b int) bool { return spans[order[a]].length > spans[order[b]].length })
	for _, i := range order {
		s := &spans[i]
		k, slack := kind{s.selected, s.from, s.leads}, o.slack
		switch {
		case s.leads: // a branch goes on where its prefix ends
			slack = 0
		case o.step && s.prefix > 0:
			slack = max(slack, (longest[k]-s.from)/branchSlack)
		}
		if top := longest[k]; top-s.length > slack || top == 0 {
			longest[k] = s.length
		}
		s.filled = longest[k]
	}
}

// even makes spans alike: all are filled up to one length, and as many rows of each are selected. A GPU is busy with
// the rows of many sequences in one product, and a second graph would need weights of its own there.
func even(spans []span) {
	length, selected := 0, 0
	for _, s := range spans {
		if !s.leads {
			selected = max(selected, s.selected)
		}
	}
	for _, s := range spans {
		if !s.leads {
			length = max(length, s.first+selected)
		}
	}
	for i := range spans {
		s := &spans[i]
		if s.filled = s.length; !s.leads {
			s.filled, s.selected = length, selected
		}
	}
}

// fillRows writes text ids, where each row of the packed batch comes from, and its position.
func (o packing) fillRows(
	p *packed,
	spans []span,
	samples []*Sample,
	textTokens int,
	positions func(*Sample) [][]int64,
) error {
	ids := make([]int64, 0, textTokens)
	order := make([]int64, 0, p.rows)
	var axes, prefix [][]int64
	image, place := textTokens+len(p.order), 0
	if o.table {
		image = textTokens
	}
	for _, sp := range spans {
		s := samples[sp.index]
		next, picture := 0, len(s.Pictures)-len(sp.pictures(s)) // end of the picture we are in, next picture
		if sp.leads {
			picture = 0
		}
		for pos := sp.from; pos < sp.length; pos++ {
			id := s.IDs[pos]
			if picture < len(s.Pictures) && pos == s.Tokens.Pictures[picture] {
				next = pos + s.Pictures[picture].Tokens
				picture++
			}
			switch {
			case pos < next:
				order = append(order, int64(image))
				image++
			case id == o.vocab:
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
		if sp.leads {
			prefix = append(prefix, axis...)
		}
		if err := sp.appendPositions(axes, axis, prefix); err != nil {
			return err
		}
		for range sp.filled - sp.length { // nothing looks at these rows: they are last
			order = append(order, int64(len(ids)))
			ids = append(ids, 0)
		}
		if !sp.leads {
			place++
		}
	}
	p.feeds[nn.InTextIDs], p.feeds[nn.InOrder] = vector(ids), vector(order)
	p.feeds[nn.InPositions] = stack(axes)
	return nil
}

// appendPositions appends a span's positions, of the sample's axis, to those of each axis; prefix are those of the
// spans that lead groups.
func (sp *span) appendPositions(axes, axis, prefix [][]int64) error {
	for a := range axis {
		if sp.prefix > 0 && !slices.Equal(axis[a][:sp.from], prefix[(sp.prefix-1)*len(axis)+a][:sp.from]) {
			return fmt.Errorf("internal error, please report it: what stands before two edits has other positions")
		}
		axes[a] = append(axes[a], axis[a][sp.from:sp.length]...)
		axes[a] = append(axes[a], make([]int64, sp.filled-sp.length)...)
	}
	return nil
}

// fillGroups writes the groups' sizes and the rows that the last layer delivers.
func (o packing) fillGroups(p *packed, spans []span) {
	var rows, lengths, selectRows, selectEach, selects, places, scores []int64
	var prefixes [][]int64
	offset := 0
	leading := o.leading(spans)
	for i, s := range spans {
		if i == 0 || !s.alike(&spans[i-1]) {
			rows, selectRows = append(rows, 0), append(selectRows, 0)
			lengths, selectEach = append(lengths, int64(s.rows())), append(selectEach, int64(s.selected))
			prefixes, p.follows = append(prefixes, nil), append(p.follows, -1)
		}
		g := len(rows) - 1
		rows[g] += int64(s.rows())
		selectRows[g] += int64(s.selected)
		if s.prefix > 0 {
			at := leading[s.prefix-1]
			p.follows[g], prefixes[g] = at.group, append(prefixes[g], int64(at.sequence))
		}
		if !s.leads {
			scores = append(scores, int64(len(selects)+s.scorePos-s.first))
		}
		for r := s.first; r < s.first+s.selected; r++ {
			selects, places = append(selects, int64(offset+r-s.from)), append(places, int64(r))
		}
		offset += s.rows()
	}
	p.groups = len(rows)
	p.feeds["group_rows"], p.feeds["group_lengths"], p.feeds[inScoreRows] = vector(rows), vector(lengths), vector(scores)
	n := 0 // groups of prefixes, of which no rows are selected
	if len(leading) == 0 {
		p.follows = nil
	} else {
		n = leading[len(leading)-1].group + 1
	}
	for g, v := range prefixes {
		if v != nil {
			p.feeds[nn.PrefixesOf(g)] = vector(v)
		}
	}
	if !(o.loss && o.all) {
		p.feeds["select"], p.feeds["select_place"] = vector(selects), vector(places)
		p.feeds["group_select_rows"], p.feeds["group_select_each"] = vector(selectRows[n:]), vector(selectEach[n:])
	}
}

// fillTargets writes what the text loss predicts: every selected row predicts the token after it.
func (o packing) fillTargets(p *packed, spans []span, samples []*Sample) {
	var predict, ids []int64
	var isScore []float32
	var shared []stretch // of each prefix
	offset := 0
	for _, s := range spans {
		own := stretch{len(predict), s.predicted}
		for k := range s.predicted {
			id, score := samples[s.index].IDs[s.first+k+1], float32(0)
			if id == o.vocab {
				id, score = 0, 1 // any row of the table: the score token's logit is its own
			}
			predict, ids, isScore = append(predict, int64(offset+k)), append(ids, id), append(isScore, score)
		}
		switch {
		case s.leads:
			shared = append(shared, own)
		case s.prefix > 0 && shared[s.prefix-1].n > 0:
			p.targets = append(p.targets, []stretch{shared[s.prefix-1], own})
		default:
			p.targets = append(p.targets, []stretch{own})
		}
		offset += s.selected
	}
	p.feeds[nn.InPredict], p.feeds[nn.InTargets] = vector(predict), vector(ids)
	p.feeds[inTargetScore] = tensor.New(tensor.WithShape(len(isScore), 1), tensor.WithBacking(isScore))
}

// stack joins axes of one length into [axes, length].
func stack(axes [][]int64) *tensor.Dense {
	return tensor.New(tensor.WithShape(len(axes), len(axes[0])), tensor.WithBacking(slices.Concat(axes...)))
}

func vector[T int64 | float32](v []T) *tensor.Dense {
	return tensor.New(tensor.WithShape(len(v)), tensor.WithBacking(v))
}

// tokenWeights makes the text loss of every sample the mean over its targets, times its share and weight. A prefix is a
// part of all samples that follow it.
func (p *packed) tokenWeights(weight float64) *tensor.Dense {
	each := make([]float64, p.feeds[nn.InTargets].DataSize())
	for place := range p.order {
		for _, s := range p.targets[place] {
			for i := s.first; i < s.first+s.n; i++ {
				each[i] += weight * p.shares[place] / float64(p.targetCount(place))
			}
		}
	}
	tokens := make([]float32, len(each))
	for i, w := range each {
		tokens[i] = float32(w)
	}
	return vector(tokens)
}
