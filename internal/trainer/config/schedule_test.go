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

// TestWarmupAsTransformers: fractions have the steps of TrainingArguments.get_warmup_steps of transformers 5.23, and a
// decay of the rest fits.
func TestWarmupAsTransformers(t *testing.T) {
	for _, c := range []struct {
		warmup      float64
		total, want int64
	}{
		{0.03, 150, 5},
		{0.1, 101, 11},
		{0.07, 100, 8}, // 7.000000000000001
		{0.05, 100, 5},
		{0.001, 300, 1},
		{0, 50, 0},
		{1, 50, 1},
		{12, 50, 12},
	} {
		s := ScheduleConfig{Kind: "wsd", Warmup: c.warmup}
		if c.warmup < 1 {
			s.Decay = 1 - c.warmup - 1e-9
		}
		got := s.course(1, c.total)
		if got.Warmup != c.want || got.Warmup+got.Decay > c.total {
			t.Errorf("warmup %g of %d steps: got %d and a decay of %d, want %d", c.warmup, c.total, got.Warmup, got.Decay,
				c.want)
		}
	}
}
