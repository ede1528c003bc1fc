package models

import (
	"fmt"
)

// Err says why the run that is planned would fail: a shard of the weights is missing, or there is too little memory.
// Weights that are absent as a whole are no reason: a run can be planned before they are fetched.
func (p *Plan) Err() error {
	switch {
	case p.Partly:
		return fmt.Errorf("the run would fail: %s", p.Absent)
	case p.Fits != nil && !*p.Fits:
		return fmt.Errorf("the run would not fit: it needs %.1f GB, %.1f GB are free", float64(p.Need)/1e9,
			float64(p.Memory)/1e9)
	}
	return nil
}
