package labeling

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"

	"assay/heuristics"
	"assay/internal/labeling/guard"
	"assay/internal/labeling/nearcopy"
)

// pictureGraph records which pictures show the same scene, and which show a picture of a benchmark. First all
// pictures are added, then compare is called.
type pictureGraph struct {
	guarded  []guard.Picture
	distance int // largest distance of hashes at which a picture is a benchmark's
	scenes   *scenes
	near     *nearcopy.Index    // nil after compare
	indexed  int32              // nodes below it are pictures with a thumbnail
	alike    []int32            // by such node: the first node with the same thumbnail, which represents it in the index
	first    map[[32]byte]int32 // thumbnail -> that node
	leaked   map[int32]leak     // by node: the benchmark picture that it shows
	blank    map[string]leak    // benchmark pictures without a thumbnail, by pixels
}

func newPictureGraph(guarded []guard.Picture, distance int) *pictureGraph {
	return &pictureGraph{guarded: guarded, distance: distance, scenes: &scenes{index: map[[16]byte]int32{}},
		near: &nearcopy.Index{}, first: map[[32]byte]int32{}, leaked: map[int32]leak{}, blank: map[string]leak{}}
}

func (g *pictureGraph) node(p *picture) int32 { return g.scenes.node("picture " + p.Pixels) }

// add adds a picture to the index, if it has a thumbnail. Pictures with the same thumbnail are indexed once.
func (g *pictureGraph) add(p *picture) {
	if len(p.Thumbnail) == 0 {
		return
	}
	n := g.node(p)
	if n != g.indexed { // known
		return
	}
	g.indexed++
	thumbnail := sha256.Sum256(p.Thumbnail)
	same, ok := g.first[thumbnail]
	if !ok {
		same, g.first[thumbnail] = n, n
		g.near.Add(n, p.Thumbnail)
	}
	g.alike = append(g.alike, same)
	g.scenes.join(same, n)
}

// compare joins the scenes of near copies and finds the pictures of benchmarks. It returns the number of pictures
// that were compared with only a part of the similar ones.
func (g *pictureGraph) compare(ctx context.Context) (crowded int, err error) {
	g.addGuarded()
	skip := func(a, b int32) bool {
		if a >= 0 && b >= 0 {
			return g.scenes.root(a) == g.scenes.root(b)
		}
		return a < 0 && b < 0
	}
	err = g.near.Pairs(ctx, skip, func(a, b int32, distance int) {
		if a < 0 {
			a, b = b, a
		}
		if b >= 0 {
			g.scenes.join(a, b)
		} else if distance <= g.distance {
			g.noteLeak(a, leak{g.guarded[-1-b].Name, distance})
		}
	})
	crowded = g.near.Crowded()
	g.near, g.first = nil, nil
	return crowded, err
}

// leak is the benchmark picture that a picture shows.
type leak struct {
	name     string
	distance int // of their hashes, in bits
}

// addGuarded adds the pictures of benchmarks to the index, with numbers counting down from -1.
func (g *pictureGraph) addGuarded() {
	known := map[[32]byte]bool{}
	for i, p := range g.guarded {
		if len(p.Thumbnail) == 0 {
			pixels := pixelsName(p.Pixels)
			if _, ok := g.blank[pixels]; !ok {
				g.blank[pixels] = leak{name: p.Name}
			}
			continue
		}
		thumbnail := sha256.Sum256(p.Thumbnail)
		if same, ok := g.first[thumbnail]; ok {
			g.noteLeak(same, leak{name: p.Name})
		}
		if !known[thumbnail] { // under the first name
			known[thumbnail] = true
			g.near.Add(int32(-1-i), p.Thumbnail)
		}
	}
}

// noteLeak records the nearest of the benchmark pictures that a picture shows.
func (g *pictureGraph) noteLeak(node int32, l leak) {
	old, ok := g.leaked[node]
	if !ok || cmp.Or(cmp.Compare(l.distance, old.distance), cmp.Compare(l.name, old.name)) < 0 {
		g.leaked[node] = l
	}
}

// leak says which picture of a row shows a benchmark's picture; "" if none does.
func (g *pictureGraph) leak(r *row) string {
	for p := range r.pictures() {
		node := g.node(p)
		if node < g.indexed {
			node = g.alike[node]
		}
		l, ok := g.leaked[node]
		if !ok && (p != r.Edit || r.Kind != heuristics.Output) {
			l, ok = g.blank[p.Pixels]
		}
		if !ok {
			continue
		}
		what := "source"
		if p == r.Target {
			what = "target"
		} else if p == r.Edit {
			what = "edited"
		}
		return fmt.Sprintf("its %s picture is %s (%d bits apart)", what, l.name, l.distance)
	}
	return ""
}

// join puts all pictures of a row into one scene and returns its node, and the node of a picture of another chain,
// which stays in its own scene (-1: none). An editor's output without content, such as a black one, is not joined: it
// would connect all samples where editors failed.
func (g *pictureGraph) join(r *row) (scene, foreign int32) {
	scene, foreign = g.node(r.Source), -1
	if r.Target != nil {
		g.scenes.join(scene, g.node(r.Target))
	}
	edit := g.node(r.Edit)
	switch {
	case r.Chain == heuristics.ChainForeign:
		foreign = edit
	case r.Chain != "" || r.Kind != heuristics.Output || edit < g.indexed:
		g.scenes.join(scene, edit)
	}
	return scene, foreign
}

// scenes joins the nodes of a scene: near copies, the pictures of a row, and the pictures of a session. It is a
// disjoint-set forest (union-find).
type scenes struct {
	index  map[[16]byte]int32
	parent []int32
	keys   [][16]byte
}

// node returns the node of a name. Names are hashed to save memory.
func (s *scenes) node(name string) int32 {
	h := sha256.Sum256([]byte(name))
	key := [16]byte(h[:16])
	if n, ok := s.index[key]; ok {
		return n
	}
	n := int32(len(s.parent))
	s.index[key] = n
	s.parent = append(s.parent, n)
	s.keys = append(s.keys, key)
	return n
}

func (s *scenes) root(n int32) int32 {
	for s.parent[n] != n {
		s.parent[n] = s.parent[s.parent[n]]
		n = s.parent[n]
	}
	return n
}

// join puts two nodes into one scene.
func (s *scenes) join(a, b int32) {
	a, b = s.root(a), s.root(b)
	if slices.Compare(s.keys[a][:], s.keys[b][:]) > 0 {
		a, b = b, a
	}
	s.parent[b] = a // the smallest key identifies the scene, whatever the order of joins
}

// Splits of rows.
const (
	splitTrain      = "train"
	splitValidation = "validation"
	splitOwn        = "own" // from the data set
)

// splitNames are the names that data sets use for splits. Other values in their column are refused.
var splitNames = []string{splitTrain, splitValidation, "val", "dev", "test"}

// splits are the splits of scenes, by root.
type splits map[int32]string

// wantedSplit returns the split that the data set requires; "" if none.
func (s *SourceConfig) wantedSplit(r *row) string {
	if s.Split == splitOwn {
		return r.Split
	}
	return s.Split
}

// split is a required split in one byte: its place in splitNames, from 1.
type split uint8

const noSplit split = 0

func splitNamed(name string) split { return split(slices.Index(splitNames, name) + 1) }

func (s split) String() string {
	if s == noSplit {
		return ""
	}
	return splitNames[s-1]
}

// or returns which of two required splits counts. Held-out data stay complete: what is also in them leaves the
// training data, not the other way round.
func (s split) or(other split) split {
	train := splitNamed(splitTrain)
	if other != noSplit && (s == noSplit || s == train || other != train && other.String() < s.String()) {
		return other
	}
	return s
}

// assign returns a split for every scene, by its root: the wanted split, if there is one. The other scenes are
// visited in the order of a hash of their key and the seed, and each goes to validation if it still fits into the
// share of the rows. At least one goes to validation, if it has at most half of the rows. The rest is train. sizes
// are the rows of each scene.
func (s *scenes) assign(sizes map[int32]int, wanted splits, share float64, seed uint64) splits {
	out := splits{}
	type draw struct {
		root int32
		hash [32]byte
	}
	var free []draw
	total, held := 0, 0
	for root, rows := range sizes {
		if want := wanted[root]; want != "" {
			out[root] = want
			continue
		}
		total += rows
		free = append(free, draw{root, sha256.Sum256(binary.LittleEndian.AppendUint64(s.keys[root][:], seed))})
	}
	slices.SortFunc(free, func(a, b draw) int {
		return cmp.Or(slices.Compare(a.hash[:], b.hash[:]), cmp.Compare(a.root, b.root))
	})
	for _, d := range free {
		out[d.root] = splitTrain
		n := held + sizes[d.root]
		if float64(n) <= share*float64(total) || share > 0 && held == 0 && 2*n <= total {
			out[d.root], held = splitValidation, n
		}
	}
	return out
}
