package registry_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"assay/internal/benchmarks/benchtest"
	"assay/internal/benchmarks/protocol"
	"assay/internal/benchmarks/registry"
	"assay/internal/benchmarks/report"
	"assay/internal/stats"
)

// TestSourceIntervals: four equal comparisons or edits of one source add nothing to what is known of a judge, so its
// number and its interval stay. Resampled one by one, four times as many would make it half as wide. The formats of a
// row get the source, the copy from 0, the winner's score, the row, and the copy from 1.
func TestSourceIntervals(t *testing.T) {
	for _, c := range []struct{ benchmark, file, number, data, prediction string }{
		{"aurora-pair", "human_ratings_pairwise.json", "threshold", `{"input": "%[1]d.png", "prompt": "p", ` +
			`"gens": ["a", "b"], "models": ["m", "n"], "winner": "m"}`, `{"id": "%[4]d", "left": %[3]d, "right": 0.5}`},
		{"editreward-compass", "reward_eval.json", "all", `{"source_image": "%[1]d.png", "winner": "a%[2]d", ` +
			`"loser": "b", "dimension": "d", "prompt": "p", "label": "preference"}`,
			`{"id": "%[4]d", "left": %[3]d, "right": 0.5}`},
		{"genaibench", "test_v1.jsonl", "threshold", `{"vote_type": "leftvote", "instruct_prompt": "p", ` +
			`"source_prompt": "s%[1]d", "target_prompt": "t"}`, `{"id": "%[4]d", "left": %[3]d, "right": 0.5}`},
		{"editreward-bench", "d.jsonl", "o", `{"key": ["%[1]d-%[2]da", "%[1]d-%[2]db"], "task_type": "t", ` +
			`"dimension": "o", "instruction": "p%[1]d"}`, `{"key": ["%[1]d-%[2]da", "%[1]d-%[2]db"], "score": [%[3]d, 0.5]}`},
		{"editreward-bench", "d.jsonl", "k2", `{"id": "%[4]d", "dataset": "2pair", "ranking": "A>B", ` +
			`"comparison_type": "", "instruction": "p", "source_image": "%[1]d.png"}`,
			`{"id": "%[4]d", "left": %[3]d, "right": 0.5}`},
		{"aim-bench", "Instructions.json", "pq", `{"original_image": "%[1]d.png", "edited_image": "%[1]d_%[2]d.png", ` +
			`"edit_type": "t", "target_emotion": {"emotion": "awe", "VAD": [5, 5, 5]}}`, `{"id": %[4]d, "pq": [%[3]d, 7]}`},
		{"fed-bench", "triplets.jsonl", "pq", `{"sample": "s%[4]d", "source": "%[1]d.png", "gt": "g%[4]d.png"}`,
			`{"sample": "s%[4]d", "id": 1, "bg_rmse": 1, "pq": %[3]d, "sc": 5, "gta": 5, "lpips_src_trg": 1, ` +
				`"lpips_src_gt": 1}`},
		{"imgedit-bench", "basic_edit.json", "score", `"%03[4]d": {"id": "%[1]d.png", "prompt": "p", "edit_type": "t"}`,
			`{"id": "%03[4]d", "score": %[3]d}`},
		{"emu-edit", "d.jsonl", "score", `{"instruction": "p", "task": "t", "split": "test", "idx": "%[4]d", ` +
			`"input_caption": "a", "output_caption": "b", "image": "%[1]d.png"}`, `{"id": "test/%[4]d", "score": %[3]d}`},
		{"magicbrush", "", "l1: single turn", `images/%[1]d/%[1]d-output%[5]d.png`,
			`{"id": "%[1]d/%[5]d", "l1": %[3]d}`},
	} {
		t.Run(c.benchmark, func(t *testing.T) {
			measured := func(sources, copies int) (float64, *stats.Interval) {
				var rows, lines []string
				for source := range sources {
					for k := range copies {
						at, right := len(rows), min(1, source*7%5)
						rows = append(rows, fmt.Sprintf(c.data, source, k, right, at, k+1))
						lines = append(lines, fmt.Sprintf(c.prediction, source, k, right, at, k+1))
					}
				}
				dir := t.TempDir()
				switch list := strings.Join(rows, ","); {
				case c.file == "": // rows are files
					for _, name := range rows {
						benchtest.PutFile(t, dir, name, nil)
					}
				case strings.HasSuffix(c.file, ".jsonl"):
					benchtest.PutFile(t, dir, c.file, []byte(strings.Join(rows, "\n")))
				case rows[0][0] == '{':
					benchtest.PutFile(t, dir, c.file, []byte("["+list+"]"))
				default:
					benchtest.PutFile(t, dir, c.file, []byte("{"+list+"}"))
				}
				b := benchtest.Must[*protocol.Benchmark](t)(registry.Find(c.benchmark))
				s := benchtest.LoadSet(t, b, protocol.Options{BGNorm: "linear:255", Sigma: 0.5, Data: dir})
				r := &report.Report{Benchmark: b}
				file := benchtest.Write(t, "p.jsonl", strings.Join(lines, "\n"))
				r.Add("judge", benchtest.Must[protocol.Predictions](t)(s.Read(file)))
				r.Measure(s, 200, 1)
				summary := r.Summary()
				at := slices.IndexFunc(summary.Columns, func(name string) bool { return strings.HasPrefix(name, c.number) })
				if at < 0 {
					t.Fatalf("got columns %v, want %s", summary.Columns, c.number)
				}
				cell := summary.Rows[0].Cells[at]
				return cell.Value, cell.Bounds
			}
			if _, got := measured(1, 4); got != nil && c.benchmark != "magicbrush" { // whose last turn is a unit, too
				t.Errorf("one source: got an interval %v, want none, since one has no spread", *got)
			}
			one, want := measured(40, 1)
			four, got := measured(40, 4)
			if math.Abs(four-one) > 1e-9 || math.Abs(got.Low-want.Low) > 1e-9 || math.Abs(got.High-want.High) > 1e-9 {
				t.Errorf("four times the same pairs: got %v [%v, %v], want %v [%v, %v] as once", four, got.Low, got.High, one,
					want.Low, want.High)
			}
		})
	}
}
