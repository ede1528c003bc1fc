package score

import (
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"
)

// TestBenchRank: editors are ranked by numbers and by votes, with the correlation with a given ranking.
func TestBenchRank(t *testing.T) {
	dir := t.TempDir()
	var scores, votes strings.Builder
	for i := range 12 { // A beats B 9 times of 12, both beat C mostly
		a, b, c := 5, 4, 3
		if i%4 == 0 {
			a, b, c = 3, 4, 6
		}
		for name, v := range map[string]int{"A": a, "B": b, "C": c} {
			fmt.Fprintf(&scores, `{"id": "s%d", "model": %q, "score": %d}`+"\n", i, name, v)
		}
		winner := "left"
		if i%4 == 0 {
			winner = "B"
		}
		fmt.Fprintf(&votes, `{"left": "A", "right": "B", "winner": %q}`+"\n", winner)
	}
	put(t, dir, "scores.jsonl", []byte(scores.String()))
	put(t, dir, "votes.jsonl", []byte(votes.String()))
	put(t, dir, "human.jsonl", []byte(`{"model": "A", "rank": 1}`+"\n"+`{"model": "B", "rank": 2}`+"\n"+
		`{"model": "C", "rank": 3}`))
	in := func(name string) string { return filepath.Join(dir, name) }
	v := benchJSON(t, "rank", "--scores", in("scores.jsonl"), "--human", in("human.jsonl"), "--resamples", "50")
	first := v["editors"].([]any)[0].(map[string]any)
	if first["name"] != "A" || first["wins"] != 18.0 || first["losses"] != 6.0 || first["human"] != -1.0 ||
		v["human"].(map[string]any)["kendall_tau_b"] != 1.0 || v["units"] != 12.0 {
		t.Errorf("%v", v)
	}
	v = benchJSON(t, "rank", "--scores", in("scores.jsonl"), "--lower", "--resamples", "0")
	if first := v["editors"].([]any)[0].(map[string]any); first["name"] != "C" || first["low"] != nil {
		t.Errorf("%v", v)
	}
	v = benchJSON(t, "rank", "--votes", in("votes.jsonl"))
	editors := v["editors"].([]any)
	gap := editors[0].(map[string]any)["strength"].(float64) - editors[1].(map[string]any)["strength"].(float64)
	if !(math.Abs(gap-math.Log(3)) <= 1e-9) { // 9 to 3
		t.Errorf("%v", v)
	}
	put(t, dir, "one.jsonl", []byte(`{"left": "A", "right": "B", "winner": "A"}`))
	code, stdout, _ := bench("rank", "--votes", in("one.jsonl"))
	if code != 0 || !strings.Contains(stdout, "there are no strengths") {
		t.Errorf("exit code %d: %s", code, stdout)
	}
	put(t, dir, "apart.jsonl", []byte(`{"left": "A", "right": "B", "winner": "A"}`+"\n"+
		`{"left": "B", "right": "A", "winner": "B"}`+"\n"+`{"left": "D", "right": "C", "winner": "tie"}`))
	code, stdout, _ = bench("rank", "--votes", in("apart.jsonl"))
	if code != 0 || !strings.Contains(stdout, "never compared with the others, not even indirectly: A, B | D, C") {
		t.Errorf("exit code %d: %s", code, stdout)
	}
	put(t, dir, "few.jsonl", []byte(`{"left": "A", "right": "B", "winner": "A"}`+"\n"+
		`{"left": "B", "right": "A", "winner": "B"}`))
	v = benchJSON(t, "rank", "--votes", in("few.jsonl"), "--resamples", "400")
	if notes := fmt.Sprint(v["notes"]); !strings.Contains(notes, " of 400 resamples have no strengths") {
		t.Errorf("half of the draws have one winner: %s", notes) // both drawn votes are the same one
	}
	for _, args := range [][]string{{"rank"}, {"rank", "--votes", in("few.jsonl"), "--lower"},
		{"rank", "--votes", in("few.jsonl"), "--number", "l1"},
		{"rank", "--votes", in("one.jsonl"), "--scores", in("scores.jsonl")}} {
		if code, _, _ := bench(args...); code != 2 {
			t.Errorf("%v: exit code %d", args, code)
		}
	}
}
