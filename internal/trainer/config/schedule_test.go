package config

import (
	"math"
	"testing"
)

// TestScheduleOfTheOracle has the learning rates of train_trace_frames.json (oracle README: linear warm-up of (t +
// 1)/4, then half a cosine to 0 at step 10).
func TestScheduleOfTheOracle(t *testing.T) {
	c := Default()
	c.Optimizer.LR = 0.002
	c.Schedule = ScheduleConfig{Kind: "cosine", Warmup: 4}
	s := c.CourseOf(OtherGroup, 10)
	want := []float64{
		0.0005,
		0.001,
		0.0015,
		0.002,
		0.002,
		0.001866025403784439,
		0.0015,
		0.001,
		0.0005000000000000002,
		0.0001339745962155613,
	}
	for i, w := range want {
		if got := s.LR(int64(i)); !(math.Abs(got-w) <= 1e-18) {
			t.Errorf("step %d: %v, want %v", i, got, w)
		}
	}
}

func TestSchedules(t *testing.T) {
	c := Default()
	c.Optimizer.LR = 1
	c.Schedule = ScheduleConfig{Kind: "linear", Warmup: 0.1, MinLR: 0.2}
	s := c.CourseOf(OtherGroup, 50)
	if s.Warmup != 5 {
		t.Error("a tenth of 50 steps is", s.Warmup)
	}
	for step, want := range map[int64]float64{0: 0.2, 4: 1, 5: 1, 14: 0.84, 50: 0.2} {
		if got := s.LR(step); !(math.Abs(got-want) <= 1e-12) {
			t.Errorf("step %d: %g, want %g", step, got, want)
		}
	}
	c.Schedule = ScheduleConfig{Kind: "constant"}
	if s := c.CourseOf(OtherGroup, 3); s.LR(0) != 1 || s.LR(2) != 1 {
		t.Error("constant is not")
	}
}
