package main

import (
	"context"
	"runtime"

	"assay/data"
	"assay/edit"
	"assay/model"
)

// orderedTurns is the standing model's chat template with the parts of a turn in their order, for the layout that has
// the question before the edit.
const orderedTurns = `{%- for message in messages -%}
  {{- '<|start_header_id|>' ~ message['role'] ~ '<|end_header_id|>\n\n' -}}
  {%- for part in message['content'] -%}
    {{- '<image>\n' if part['type'] == 'image' else part['text'] -}}
  {%- endfor -%}
  {{- '<|eot_id|>' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}
  {{- '<|start_header_id|>assistant<|end_header_id|>\n\n' -}}
{%- endif -%}`

// edits are pairs of one source and instruction.
func edits(a, b *data.Picture, n int) (pairs []*edit.Edit) {
	for i := range n {
		pairs = append(pairs, edit.New(a, other(b, i), instruction))
	}
	return pairs
}

// groupStep times the gradients of the mean loss over the edits of one source and instruction: together, or one by one.
// Image features are there already.
func (o *options) groupStep(state *model.ScorerState, a, b *data.Picture) error {
	n := o.edits
	t, err := model.NewTuner(state, model.TuneOptions{Options: o.model(), TextLoss: 1, ScoreLoss: 10, Share: true,
		Recompute: o.recompute})
	if err != nil {
		return err
	}
	defer t.Close()
	var samples []*model.Sample
	for _, p := range edits(a, b, n) {
		s, err := t.Sample(p, model.Ask{})
		if err != nil {
			return err
		}
		samples = append(samples, s)
	}
	labels := make([]float64, n)
	for i := range labels {
		labels[i] = 0.5
	}
	each := n
	if o.apart {
		each = 1
	}
	u, err := t.Usage(samples[0], each, n+1, false)
	if err != nil {
		return err
	}
	var loss float64
	var rows int
	facts := map[string]any{
		"edits": n, "tokens": len(samples[0].IDs), "loss": &loss, "rows": &rows, "planned": total(u),
	}
	return report(o.steps, facts, func() error {
		loss, rows = 0, 0
		for at := 0; at < n; at += each {
			r, err := t.Step(context.Background(), samples[at:at+each], labels[at:at+each], 1/float64(n), 1)
			if err != nil {
				return err
			}
			for _, v := range r.Loss {
				loss += v / float64(n)
			}
			rows += r.Tokens
		}
		return nil
	})
}

// groupScore times the scores of the edits of one source and instruction, from decoded pictures: together, or one by
// one. The vision tower sees every picture once.
func (o *options) groupScore(state *model.ScorerState, a, b *data.Picture) error {
	n := o.edits
	s, err := model.NewScorer(state, model.Options{Threads: runtime.NumCPU()})
	if err != nil {
		return err
	}
	defer s.Close()
	var scores []float64
	rows := 0
	return report(o.steps, map[string]any{"edits": n, "scores": &scores, "rows": &rows}, func() error {
		scores, rows = nil, 0
		s.ClearCache()
		each := n
		if o.apart {
			each = 1
		}
		pairs := edits(a, b, n)
		for at := 0; at < n; at += each {
			var samples []*model.Sample
			for _, p := range pairs[at : at+each] {
				one, err := s.Sample(p, model.Ask{})
				if err != nil {
					return err
				}
				samples = append(samples, one)
			}
			got, err := s.Score01(context.Background(), samples)
			if err != nil {
				return err
			}
			together, _ := s.Rows(samples)
			scores, rows = append(scores, got...), rows+together
		}
		return nil
	})
}
