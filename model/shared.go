package model

import (
	"fmt"
	"slices"
	"sync"

	"assay/model/backbone"
)

// Shared lets scorers of the same edit share prepared pictures: scorers that show pictures in the same way, to equal
// image processors, prepare them once. The pictures must not change meanwhile. It is safe for concurrent use.
type Shared struct {
	mu sync.Mutex
	at map[string][]sharedPictures // by how they are shown
}

// sharedPictures are the pictures of an edit, and the prepared ones.
type sharedPictures struct {
	of       shownPictures
	pictures []*backbone.Picture
}

// sharedKey identifies prepared pictures by their originals and how they are prepared.
type sharedKey struct {
	of  shownPictures
	how string
}

// shared returns the key of an edit's pictures if they are shown in a certain way.
func (p *preparer) shared(s shownPictures, shown ...any) sharedKey {
	return sharedKey{s, p.net.Backbone.Processing() + " " + fmt.Sprint(shown...)}
}

// get returns pictures that another scorer prepared; nil if none did.
func (s *Shared) get(k sharedKey) []*backbone.Picture {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, known := range s.at[k.how] {
		if known.of.equal(&k.of) {
			return twins(known.pictures)
		}
	}
	return nil
}

// put shares pictures with other scorers, unless they are only features, which belong to one scorer.
func (s *Shared) put(k sharedKey, pictures []*backbone.Picture) {
	if s == nil {
		return
	}
	if slices.ContainsFunc(pictures, func(p *backbone.Picture) bool { return p.Pixels == nil }) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.at == nil {
		s.at = map[string][]sharedPictures{}
	}
	s.at[k.how] = append(s.at[k.how], sharedPictures{k.of, twins(pictures)})
}

func twins(pictures []*backbone.Picture) (out []*backbone.Picture) {
	for _, p := range pictures {
		out = append(out, p.Twin())
	}
	return out
}
