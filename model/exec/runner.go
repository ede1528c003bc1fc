package exec

import (
	"errors"
)

// Runner runs graphs over packed samples: sessions, and the features that a frozen tower makes of pictures.
type Runner struct {
	net      *Network
	Sessions *Sessions
	Features *visionFeatures
}

// newRunner opens nothing yet. identity is what a configuration says about scores; as far as image features depend on
// it.
func newRunner(n *Network, o *Options, pictures *PictureCache, identity string) *Runner {
	s := newSessions(n, o)
	print := func() (string, error) { return n.featurePrint(identity) }
	return &Runner{n, s, newVisionFeatures(s, pictures, o.Store, print)}
}

// Open makes what prepares texts and pictures, and what runs graphs over them. They share the pictures in memory.
func Open(n *Network, o *Options, p ProcessorOptions, identity string) (*Processor, *Runner, error) {
	pictures := newPictureCache(o.cacheSize())
	processor, err := newProcessor(n, pictures, p)
	if err != nil {
		return nil, nil, err
	}
	return processor, newRunner(n, o, pictures, identity), nil
}

// Close frees sessions and weights.
func (r *Runner) Close() error { return errors.Join(r.Sessions.close(), r.net.Backbone.Close()) }
