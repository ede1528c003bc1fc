package report

import (
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"time"

	"assay/internal/trainer/config"
	"assay/internal/trainer/records"
)

// reload is the number of seconds after which a served page is reloaded.
const reload = 5

// Handler serves the current page of a run directory.
func Handler(dir string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		run, err := Read(dir)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		if !run.Finished {
			run.Refresh = reload
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		run.Page(w)
	})
}

// answered describes the rewards of the answers of a step; "" without any.
func answered(a *records.AnswerMetrics) string {
	if a == nil {
		return ""
	}
	text := fmt.Sprintf(" reward %s +- %s, length %s, read %s, clipped %s,", number(a.Reward), number(a.RewardStd),
		number(a.Length), number(a.Read), number(a.ClipRatio))
	if a.KL != nil {
		text += fmt.Sprintf(" KL %s,", number(*a.KL))
	}
	return text
}

// measures returns the main metrics of a validation as text.
func measures(m *records.ValidationMetrics) string {
	switch heads := m.Number(config.ByDimensions); {
	case m.Loss != nil:
		return "loss " + number(*m.Loss)
	case m.Reward != nil:
		return fmt.Sprintf("reward %s, share of answers parsed %s", number(*m.Reward), number(*m.Read))
	case math.IsNaN(float64(m.L1)) && !math.IsNaN(heads):
		return fmt.Sprintf("mean error of the heads %s", number(records.Number(heads)))
	}
	return fmt.Sprintf("L1 %s, Spearman %s", number(m.L1), number(m.Spearman))
}

// Watch writes a line for each validation and, at most every few seconds, one for the newest step, until the run is
// finished or ctx ends.
func Watch(ctx context.Context, dir string, every time.Duration, w io.Writer) error {
	steps, validations := 0, 0
	for {
		r, err := Read(dir)
		if err != nil {
			return err
		}
		if n := len(r.Steps); n < steps { // the run resumed from an earlier step, or started over
			steps, validations = 0, 0
		} else if n > steps {
			steps = n
			m := r.Steps[n-1]
			fmt.Fprintf(w, "step %d, epoch %.4g: loss %s,%s learning rate %.3g, %.0f s\n", m.Step, m.Epoch, number(m.Loss),
				answered(m.Answers), m.LR, m.Seconds)
		}
		for ; validations < len(r.Validations); validations++ {
			m := r.Validations[validations]
			best := ""
			if m.Best {
				best = ", the best so far"
			}
			fmt.Fprintf(w, "validation at step %d: %s%s\n", m.Step, measures(&m), best)
		}
		if r.Finished {
			fmt.Fprintln(w, "training is done")
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(every):
		}
	}
}
