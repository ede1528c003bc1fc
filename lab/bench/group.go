package main

import (
	"context"
	"runtime"

	"assay/data"
	"assay/edit"
	"assay/model"
)

// orderedTurns is the benchmark model's chat template with the parts of a turn in order, for the layout with the
// question before the edit.
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

// groupScore times the scoring of the edits of one source and instruction from decoded pictures, together or one by
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
