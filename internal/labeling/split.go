package labeling

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"slices"
)

// scenes joins what shows the same scene: pictures that are equal, and the pictures of a session. It is a forest of
// disjoint sets.
type scenes struct {
	index  map[[16]byte]int32
	parent []int32
	keys   [][16]byte
}

// node returns the node of a name, which is hashed to spare memory.
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

// join puts two names into one scene.
func (s *scenes) join(a, b int32) {
	a, b = s.root(a), s.root(b)
	if slices.Compare(s.keys[a][:], s.keys[b][:]) > 0 {
		a, b = b, a
	}
	s.parent[b] = a // the smallest key names the scene, in whatever order its parts were met
}

// Splits of rows.
const (
	splitTrain      = "train"
	splitValidation = "validation"
	splitOwn        = "own" // as the data set says
)

// splitNames are the words that data sets use for splits. Any other word in their column is no split.
var splitNames = []string{splitTrain, splitValidation, "val", "dev", "test"}

// splits are the splits of scenes, by root.
type splits map[int32]string

// wantedSplit is the split that the data set asks for, "" if it has no wish.
func (s *SourceConfig) wantedSplit(r *row) string {
	if s.Split == splitOwn {
		return r.Split
	}
	return s.Split
}

// assign gives every scene a split, by its root: the wanted one, if there is one. Of the others, in the order of a hash
// of their names and the seed, those go to validation that fit into the share of the rows. One does in any case, if it
// has at most half of the rows. The rest is train. sizes are the rows of each scene.
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
