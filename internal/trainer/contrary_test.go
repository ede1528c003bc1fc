package trainer

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"assay/internal/exit"
)

// judged is a row of a label table of writeGroups.
func judged(group, edit, said string) string {
	return fmt.Sprintf(`{"id": "%s-%s", "group": %q, "source": "a.png", "edit": "%s.png", "instruction": "do", %s}`+"\n",
		group, edit, group, edit, said)
}

// TestContraryRefused: labels and ranks that order two edits of a group differently are refused if a loss compares by
// them; the error lists the rows and their values. A tie in labels or ranks is not a contradiction.
func TestContraryRefused(t *testing.T) {
	contrary := judged("g", "e0", `"label_q": 0.9, "rank_q": 3`) + judged("g", "e1", `"label_q": 0.5, "rank_q": 2`) +
		judged("g", "e2", `"label_q": 0.7, "rank_q": 1`)
	agreeing := judged("g", "e0", `"label_q": 0.9, "rank_q": 1`) + judged("g", "e1", `"label_q": 0.5, "rank_q": 2`)
	const pairs, orders = "{kind: bradley_terry}", "{kind: plackett_luce}"
	wants := []string{`group "g"`, "row 1 of table.jsonl (id g-e0) has label_q 0.9 and rank_q 3",
		"row 2 of table.jsonl (id g-e1) has label_q 0.5 and rank_q 2"}
	plain := func(rows string) string { return strings.ReplaceAll(rows, "_q", "") }
	for _, test := range []struct {
		losses, dimension, rows, valid string
		wants                          []string
	}{
		{pairs, "q", contrary, "", wants},
		{orders, "q", contrary, "", wants},
		{"{kind: l1}, " + orders, "q", contrary, "", wants},
		{pairs, "", plain(contrary), "",
			[]string{"(id g-e0) has label 0.9 and rank 3", "(id g-e1) has label 0.5 and rank 2"}},
		{"{kind: l1}", "q", contrary, "", nil},           // nothing is compared
		{pairs, "", plain(agreeing) + contrary, "", nil}, // q is not read
		{"", "", plain(contrary), plain(agreeing), nil},  // nor is a rank
		{pairs, "q", agreeing, "", nil},
		{pairs, "q", judged("g", "e0", `"label_q": 0.5, "rank_q": 1`) +
			judged("g", "e1", `"label_q": 0.5, "rank_q": 2`), "", nil},
		{pairs, "q", judged("g", "e0", `"label_q": 0.5, "rank_q": 1`) +
			judged("g", "e1", `"label_q": 0.7, "rank_q": 1`), "", nil},
		{pairs, "q", agreeing + judged("g", "e2", `"label_q": 1`) + judged("g", "e3", `"rank_q": 7`), "", nil},
		{pairs, "q", agreeing + judged("h", "e0", `"label_q": 0.1, "rank_q": 1`) +
			judged("h", "e1", `"label_q": 0, "rank_q": 2`), "", nil},
		{pairs, "", plain(agreeing), plain(contrary), []string{"row 1 of v.jsonl (id g-e0) has label 0.9 and rank 3"}},
		{"", "", plain(agreeing), plain(contrary), []string{"row 1 of v.jsonl (id g-e0) has label 0.9 and rank 3"}},
	} {
		keys := "data: {train: table.jsonl}\n"
		if test.valid != "" {
			keys = "data: {train: table.jsonl, validation: v.jsonl}\n"
		}
		if test.losses != "" {
			keys += "losses: [" + test.losses + "]\n"
		}
		path := writeGroups(t, 0, keys)
		writeFiles(t, filepath.Dir(path), "table.jsonl", test.rows, "v.jsonl", test.valid)
		c, f := load(t, path), newFake()
		for i := range c.Losses { // that of a scorer of format 2
			c.Losses[i].Dimension = test.dimension
		}
		_, dry := DryRun(t.Context(), c, f.factory)
		_, err := Train(t.Context(), Options{Config: c, Factory: f.factory})
		for what, err := range map[string]error{"dry run": dry, "run": err} {
			what = fmt.Sprintf("%s of %q %s over\n%s%s", what, test.losses, test.dimension, test.rows, test.valid)
			if len(test.wants) == 0 && err != nil {
				t.Errorf("%s: %v", what, err)
			}
			for _, want := range test.wants {
				if exit.Code(err) != exit.Wrong || !strings.Contains(err.Error(), want) || f.done > 0 {
					t.Errorf("%s: %v after %d steps, want %q in it before the first", what, err, f.done, want)
				}
			}
		}
	}
}
