package readers

import (
	"cmp"
	"fmt"
	"strings"

	"assay/heuristics"
)

func init() {
	register(Layout{
		Name:  "editreward",
		About: "EditReward-Data: two outputs of one instruction with human scores (2 to 8) and a vote between them",
		Fields: map[string]string{"id": "unique_key", "source": "source_img", "instruction": "instruction",
			"left": "left_output_image", "right": "right_output_image", "left_model": "left_model", "right_model": "right_model",
			"left_score": "left_overall_score", "right_score": "right_overall_score", "vote": "vote_type", "split": "split"},
		Needed: []string{"source", "instruction", "left", "right", "vote"},
		open:   openTabular(openRows, func(t tabular) Reader { return &editReward{t} }),
	})
}

// editReward reads one pair of outputs per row. The overall score is the sum of two scores from 1 to 4.
type editReward struct{ tabular }

func (r *editReward) Read(i int) (*Sample, error) {
	c, err := readRow(r.rows, i, &r.o)
	if err != nil {
		return nil, err
	}
	c.need("source", "instruction", "left", "right", "vote")
	s := &Sample{ID: fmt.Sprintf("%s-%06d", cmp.Or(c.text("id"), "row"), i), Split: c.text("split"),
		Source: c.picture("source"), Instruction: c.text("instruction")}
	for _, side := range []string{"left", "right"} {
		by := heuristics.Candidate{Editor: cmp.Or(c.text(side+"_model"), side), Given: c.label(side+"_score", 2, 8)}
		s.Outputs = append(s.Outputs, Output{Picture: c.picture(side), Candidate: by})
	}
	vote := strings.ToLower(c.text("vote"))
	switch {
	case strings.HasPrefix(vote, "left"):
		s.Preference = &Preference{Better: 0}
	case strings.HasPrefix(vote, "right"):
		s.Preference = &Preference{Better: 1}
	case strings.HasPrefix(vote, "tie"), strings.HasPrefix(vote, "both"):
		s.Preference = &Preference{Better: -1}
	default:
		c.bad("vote", fmt.Errorf("want leftvote, rightvote or tie, have %q", vote))
	}
	return s, c.err()
}
