package model

import (
	"fmt"
	"sync"

	"assay/model/backbone"
)

// Shared is what scorers that are asked about the same edit have in common: those that show pictures in one way, to
// equal image processors, prepare them once. The pictures must not change meanwhile. It is safe for concurrent use.
type Shared struct {
	mu sync.Mutex
	at map[sharedKey][]*backbone.Picture
}

// sharedKey is what prepared pictures are made of, and how.
type sharedKey struct {
	pictures shownPictures
	how      string
}

// shared is what pictures of an edit are shared under if they are shown in a certain way.
func (p *preparer) shared(s shownPictures, shown ...any) sharedKey {
	return sharedKey{s, p.net.Backbone.Processing() + " " + fmt.Sprint(shown...)}
}

// get returns pictures that another scorer prepared; nil: none did.
func (s *Shared) get(k sharedKey) (out []*backbone.Picture) {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.at[k] {
		out = append(out, p.Twin())
	}
	return out
}

// put lets other scorers have pictures, unless they are features alone, which are a scorer's own.
func (s *Shared) put(k sharedKey, pictures []*backbone.Picture) {
	if s == nil {
		return
	}
	var twins []*backbone.Picture
	for _, p := range pictures {
		if p.Pixels == nil {
			return
		}
		twins = append(twins, p.Twin())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.at == nil {
		s.at = map[sharedKey][]*backbone.Picture{}
	}
	s.at[k] = twins
}
