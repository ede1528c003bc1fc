package model

import "context"

// Begin begins a step of the optimizer with Resident: parameters as they are now, and sums of no gradients.
func (t *Tuner) Begin(ctx context.Context) error { return t.scorer.run.Sessions.Begin(ctx) }

// Sums brings the sums of the gradients of all steps since Begin, in the order of Params.
func (t *Tuner) Sums(ctx context.Context, into [][]float32) error {
	return t.scorer.run.Sessions.Resident.Fetch(ctx, into)
}
