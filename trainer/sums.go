package trainer

import (
	"fmt"
	"math"
	"strings"
)

// add sums a micro-batch's gradients into the batch's, after a look at their shapes. Several ranks have done so.
func (r *run) add(out *StepResult, n int) error {
	if r.ranks != nil {
		return nil
	}
	if err := r.checkGrads(out, n); err != nil || r.accumulator() != nil {
		return err
	}
	r.sum(out)
	return nil
}

// checkGrads looks at the shapes of what the model gave for n samples.
func (r *run) checkGrads(out *StepResult, n int) error {
	grads := len(r.params)
	if r.accumulator() != nil {
		grads = 0
	}
	if len(out.Grads) != grads || len(out.Loss) != n || len(out.ScoreLoss) != n || len(out.Score) != n ||
		len(out.CE) != 0 && len(out.CE) != n {
		return fmt.Errorf("the model gave %d losses and %d gradients for %d samples and %d parameters", len(out.Loss),
			len(out.Grads), n, len(r.params))
	}
	for i, g := range out.Grads {
		if g == nil || len(g.Float32s()) != len(r.params[i].Floats()) {
			return fmt.Errorf("the gradient of %s has not the shape of the parameter", r.params[i].Name)
		}
	}
	return nil
}

// add counts a micro-batch into the means over n samples, of which some are labelled, and returns the examples whose
// loss is not finite.
func (m *StepMetrics) add(out *StepResult, part []Example, n, labelled int) (notFinite []Example) {
	for i, e := range part {
		if l := out.Loss[i]; math.IsNaN(l) || math.IsInf(l, 0) {
			notFinite = append(notFinite, e)
		}
		m.Loss += number(out.Loss[i] / float64(n))
		m.ScoreLoss += number(out.ScoreLoss[i] / float64(n))
		switch {
		case labelled == 0:
			m.L1 = number(math.NaN())
		case e.labelled():
			m.L1 += number(math.Abs(out.Score[i]-e.Label) / float64(labelled))
		}
		if len(out.CE) > 0 {
			if m.Text == nil {
				m.Text = new(number)
			}
			*m.Text += number(out.CE[i] / float64(n))
		}
	}
	m.Tokens += out.Tokens
	return notFinite
}

// ids lists the ids of examples for people.
func ids(examples []Example) string {
	var out []string
	for i, e := range examples {
		if i == 16 {
			out = append(out, fmt.Sprintf("and %d more", len(examples)-i))
			break
		}
		out = append(out, e.Row.ID)
	}
	return strings.Join(out, ", ")
}
