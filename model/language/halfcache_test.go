package language_test

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"assay/model"
	"assay/model/language"
	"assay/model/text"
)

// TestHalfCache runs the GPU's generation graph in half precision, with keys and values in memory of the device. It
// runs in float16 on the CPU, which has no bfloat16 kernels. The logits equal those of float32 except for rounding:
// for a prompt, for tokens after it, and for two sequences at once.
func TestHalfCache(t *testing.T) {
	for _, family := range []string{"llavanext", "qwen2_vl", "qwen2_5_vl", "qwen3_vl"} {
		dir := filepath.Join("../../testdata/oracle", family, "backbone")
		var all [2][][]float32
		for i, half := range []bool{false, true} {
			o := model.Options{Device: "cpu", Threads: 1}
			if half {
				o = model.Options{Device: "cuda:0", On: "cpu", DType: "bfloat16", Threads: 1}
			}
			l, err := language.Open(dir, "", o)
			if err != nil {
				t.Fatal(err)
			}
			if half {
				l.ComputeHalf()
			}
			if all[i], err = spoken(l); err != nil {
				t.Fatalf("%s, half %v: %v", family, half, err)
			}
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		}
		for i, want := range all[0] {
			most, far := 0.0, 0.0
			for k, w := range want {
				most, far = max(most, math.Abs(float64(w))), max(far, math.Abs(float64(w-all[1][i][k])))
			}
			if far == 0 || !(far <= 2e-3*most) {
				t.Errorf("%s, logits %d: %g off, the largest is %g", family, i, far, most)
			}
			t.Logf("%s, logits %d: %g off, the largest is %g", family, i, far, most)
		}
	}
}

// spoken returns the logits after two prompts that run together, after a token appended to each, and after two tokens
// appended to one.
func spoken(l *language.Model) (out [][]float32, err error) {
	ctx := context.Background()
	c, err := l.NewCache(3, 192)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	var prompts []*language.Prompt
	var parts []language.Stretch
	for _, words := range []string{"What is this?", "Say what there is to see, in some words."} {
		p, err := l.Prompt([]text.Message{{Role: "user", Content: []text.Content{{Text: words}}}}, nil)
		if err != nil {
			return nil, err
		}
		prompts, parts = append(prompts, p), append(parts, language.Stretch{Prompt: p, To: len(p.IDs), Logits: 1})
	}
	add := func(first int, parts ...language.Stretch) error {
		logits, err := l.Forward(ctx, c, first, parts...)
		out = append(out, logits...)
		return err
	}
	if err := add(1, parts...); err != nil {
		return nil, err
	}
	for i, p := range prompts {
		p.Append(int64(5 + i))
		parts[i] = language.Stretch{Prompt: p, From: len(p.IDs) - 1, To: len(p.IDs), Logits: 1}
	}
	if err := add(1, parts...); err != nil {
		return nil, err
	}
	if err := c.Swap(0, 2, len(prompts[1].IDs)); err != nil {
		return nil, err
	}
	p := prompts[1]
	if err := c.Resize(2, 256, []language.Kept{{Slot: 0, Rows: len(p.IDs)}}); err != nil {
		return nil, err
	}
	p.Append(7)
	p.Append(9)
	if err := c.Copy(1, 0, len(p.IDs)); err != nil {
		return nil, err
	}
	if err := add(1, language.Stretch{Prompt: p, From: len(p.IDs) - 2, To: len(p.IDs), Logits: 2}); err != nil {
		return nil, err
	}
	if err := c.Resize(1<<40, 256, nil); err == nil || c.Slots() != 0 {
		return nil, fmt.Errorf("a cache of any size: %v, %d slots", err, c.Slots())
	}
	return out, nil
}

// TestCacheRoom: the room for keys and values on a GPU grows with its memory and is larger in bfloat16; a GPU without
// any is refused.
func TestCacheRoom(t *testing.T) {
	const free = 40 << 30
	room := map[string]int64{}
	for _, dtype := range []string{"float32", "bfloat16"} {
		l, err := language.Open("../../testdata/oracle/qwen2_5_vl/backbone", "",
			model.Options{Device: "cuda:0", Elsewhere: true, DType: dtype})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		if room[dtype], err = l.CacheRoomOf(free); err != nil {
			t.Fatal(err)
		}
		if more, err := l.CacheRoomOf(2 * free); err != nil || more-room[dtype] != free/10*9 {
			t.Errorf("%s: %d, %d, %v", dtype, room[dtype], more, err)
		}
		if _, err := l.CacheRoomOf(1 << 30); err == nil || !strings.Contains(err.Error(), "leaves no room") {
			t.Errorf("%s: a GiB: %v", dtype, err)
		}
		if l.DType() != dtype {
			t.Errorf("%s for %s", l.DType(), dtype)
		}
	}
	if room["bfloat16"] <= room["float32"] || room["bfloat16"] >= free {
		t.Errorf("%v of %d bytes", room, int64(free))
	}
	if err := language.CheckDType("float8"); err == nil {
		t.Error("float8 was accepted")
	}
}
