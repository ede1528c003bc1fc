package released

import (
	"math"
	"strings"
	"testing"
)

func TestValuesAreFinite(t *testing.T) {
	for _, o := range []Options{
		{Choices: []string{"a", "b"}, Values: []float64{0, math.Inf(1)}},
		{Choices: []string{"a", "b"}, Values: []float64{math.NaN(), 1}},
		{Choices: []string{"1", "inf"}},
		{Choices: []string{"1", "2"}, Range: []float64{0, math.Inf(1)}},
	} {
		if _, _, err := choiceValues(&o); err == nil || !strings.Contains(err.Error(), "not finite") {
			t.Errorf("%+v: error %v", o, err)
		}
	}
}
