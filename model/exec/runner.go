package exec

import (
	"context"
	"errors"

	"assay/model/batch"
)

// Runner runs graphs over packed samples, with sessions and a frozen tower's features of pictures.
type Runner struct {
	net      *Network
	Sessions *Sessions
	Features *visionFeatures
	kept     int64 // by fused operators outside the arena, in the graphs that a plan simulated
}

// newRunner does not open anything yet. identity is the part of a scorer's configuration that image features depend on.
func newRunner(n *Network, o *Options, pictures *PictureCache, identity string) *Runner {
	s := newSessions(n, o)
	print := func() (string, error) { return n.featurePrint(identity) }
	return &Runner{net: n, Sessions: s, Features: newVisionFeatures(s, pictures, o.Store, print)}
}

// Open returns the processor of texts and pictures and the runner of graphs over them. They share the pictures in
// memory.
func Open(n *Network, o *Options, p ProcessorOptions, identity string) (*Processor, *Runner, error) {
	pictures := newPictureCache(o.cacheSize())
	processor, err := newProcessor(n, pictures, p)
	if err != nil {
		return nil, nil, err
	}
	return processor, newRunner(n, o, pictures, identity), nil
}

// Fill adds the features of a frozen tower to the pictures of samples.
func (r *Runner) Fill(ctx context.Context, samples []*batch.Sample) error {
	if r.net.VisionTrained() {
		return nil
	}
	_, err := r.Features.Fill(ctx, samples)
	return err
}

// Close frees sessions and weights.
func (r *Runner) Close() error { return errors.Join(r.Sessions.close(), r.net.Backbone.Close()) }
