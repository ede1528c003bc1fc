package adiee

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"assay/edit"
	"assay/internal/benchmarks/protocol"
)

// GenAIBench is GenAI-Bench's votes on edits.
var GenAIBench = family.Benchmark("genaibench", loadGenAIBench)

var genAIVotes = []string{"leftvote", "rightvote", "tievote", "bothbad_vote"}

var genAIRules = append([]protocol.PairRule{
	protocol.AnswerRule("official", genAIVotes, map[string][]string{
		"leftvote":     {"A>B", "A>>B"},
		"rightvote":    {"B>A", "B>>A"},
		"tievote":      {"A=B", "A=B=Good"},
		"bothbad_vote": {"A=B", "A=B=Bad"},
	}),
	protocol.ADIEERule(genAIVotes, "leftvote", "rightvote", func(l, r float64) string {
		if l >= 9 && r >= 9 {
			return "tievote"
		}
		return "bothbad_vote"
	}),
}, protocol.ThresholdRules...)

// genAI is GenAI-Bench. With --votes its pairs have no edits.
type genAI struct{ protocol.PairSet }

func loadGenAIBench(o protocol.Options) (protocol.Set, error) {
	if err := checkGenAI(o); err != nil {
		return nil, err
	}
	s := &genAI{protocol.PairSet{Name: "genaibench", Epsilon: o.Epsilon, Rules: genAIRules,
		Answers: []string{"A>B", "B>A", "A=B=Good", "A=B=Bad"},
		Side: map[string]string{"leftvote": protocol.Left, "rightvote": protocol.Right, "tievote": protocol.Tie,
			"bothbad_vote": protocol.Tie}}}
	if o.Votes != "" {
		o.NoteFiles(o.Votes)
		return s, s.readVotes(o.Votes)
	}
	subset := cmp.Or(o.Subset, "test_v1")
	if subset != "test_v1" {
		s.Subset = subset
	}
	files, err := protocol.LocateAll(o.Data, subset+"-*.parquet", subset+".parquet", subset+".jsonl")
	if err != nil {
		return nil, err
	}
	generation := func(f string) bool { return !strings.Contains(f, "image_edition") }
	if edits := slices.DeleteFunc(slices.Clone(files), generation); len(edits) > 0 {
		files = edits // the full dataset: without the parts on generation
	}
	o.NoteFiles(files...)
	table, err := protocol.OpenSamples(files, "vote_type")
	if err != nil {
		return nil, err
	}
	var targets *hubTargets // nil without --targets
	if o.Targets != "" {
		if targets, err = openHubTargets(o.Targets); err != nil {
			return nil, err
		}
	}
	columns := []string{"vote_type", "instruct_prompt"}
	captioned := table.Has("source_prompt") && table.Has("target_prompt")
	if captioned {
		columns = append(columns, "source_prompt", "target_prompt")
	}
	return s, table.Each(columns, func(p protocol.Sample, text []string) error {
		captions := [2]string{}
		if captioned {
			captions = [2]string(text[2:4])
		}
		s.Add(strconv.Itoa(len(s.IDs)), text[0])
		if task := ""; captioned { // rows do not name their source: votes with the same texts are on one
			if captions[0] != "" {
				task = strings.Join(text[1:], "\n")
			}
			s.Together(task)
		}
		picture := func(column string) protocol.Picture { return p.Picture(column, -1, o.Images) }
		outputs := [2]protocol.Picture{picture("left_output_image"), picture("right_output_image")}
		for _, it := range s.AddEdits(text[1], picture("source_image"), outputs) {
			protocol.SetCaptions(it, captions)
			protocol.SetPicture(it, protocol.Target, targets.of(text[1], captions))
		}
		return checkVote(text[0])
	})
}

func checkVote(vote string) error {
	if !slices.Contains(genAIVotes, vote) {
		return fmt.Errorf("vote_type is %q: want one of %s", vote, strings.Join(genAIVotes, ", "))
	}
	return nil
}

// checkGenAI refuses an unknown subset, and options that --votes would override.
func checkGenAI(o protocol.Options) error {
	switch {
	case !slices.Contains([]string{"", "test_v1", "test"}, o.Subset):
		return fmt.Errorf("subset %q: want test_v1 or test", o.Subset)
	case o.Votes != "" && (o.Data != "" || o.Targets != "" || o.Images != ""):
		return errors.New("--votes are votes without pictures, instead of --ratings: leave out --ratings, --images " +
			"and --targets, or --votes")
	}
	return nil
}

func (s *genAI) readVotes(path string) error {
	return protocol.EachLine(path, func(r *protocol.Line) error {
		id, vote := r.ID("id"), r.Text("vote_type")
		if _, twice := s.Index[id]; twice {
			return fmt.Errorf("a second vote for %s", id)
		}
		s.Add(id, vote)
		return checkVote(vote)
	})
}

// Items implements Scorable.
func (s *genAI) Items() ([]*edit.Edit, error) {
	if len(s.Edits) == 0 {
		return nil, fmt.Errorf("--votes has no pictures: give --ratings with the Parquet files")
	}
	var p protocol.Problems
	for i, pair := range s.Edits {
		if pair[0].Instruction == "" {
			p.Add("pair "+s.IDs[i], "instruct_prompt is empty")
		}
	}
	items, err := s.PairSet.Items()
	return items, errors.Join(p.Err(), err)
}
