package main

import (
	"fmt"
	"math"

	"assay/lab/internal/miniature"
)

// emotions are AIM-Bench's, expressions FED-Bench's. The miniature world has neither: samples are assigned names in
// turn.
var (
	emotions    = []string{"amusement", "awe", "contentment", "excitement", "anger", "disgust", "fear", "sadness"}
	expressions = []string{"angry", "disgust", "fear", "happy", "neutral", "sad", "surprise"}
)

// twoEditors are the editors in the component benchmarks: the first two outputs of each group.
var twoEditors = []string{"Editor-A", "Editor-B"}

// judged returns the answer of a simulated judge of 0 to 10: the truth, rounded.
func judged(r row) float64 { return math.Round(10 * r.truth.Degree) }

// quality returns 10 except for ruined outputs.
func quality(r row) float64 {
	switch r.truth.Kind {
	case miniature.Corrupt:
		return 1
	case miniature.Damaged:
		return 5
	}
	return 10
}

// aimBench writes AIM-Bench's layout with two editors, and components from a simulated judge.
func (s *set) aimBench(w *folder) {
	var samples, lines []map[string]any
	for i, g := range s.groups {
		emotion := emotions[i%len(emotions)]
		point := map[string]float64{"valence": 5, "arousal": 5, "dominance": 5}
		samples = append(samples, map[string]any{"original_image": g[0].Group + ".png",
			"edited_image": g[0].Group + "_" + emotion + ".png", "edit_type": "add_object", "edit_prompt": g[0].Instruction,
			"source_emotion": map[string]any{"emotion": "awe", "VAD": point},
			"target_emotion": map[string]any{"emotion": emotion, "VAD": point}})
		w.copy(g[0].Source, "benchmark/"+g[0].Group+".png")
		for k, editor := range twoEditors {
			to := fmt.Sprintf("%s/edited_output/%s_edited_%s.png", editor, g[k].Group, emotion)
			w.copy(g[k].Edit, to)
			seen := emotion
			if g[k].truth.Degree < 0.5 {
				seen = emotions[(i+1)%len(emotions)]
			}
			v := judged(g[k])
			lines = append(lines, map[string]any{"id": i, "method": editor, "sc": []float64{v, v},
				"pq": []float64{quality(g[k]), quality(g[k])}, "aesthetic": quality(g[k]) / 2, "s_sm": v, "s_vs": v,
				"emotion": seen, "vad": map[string]float64{"valence": 5 - v/5, "arousal": 5, "dominance": 5}})
		}
	}
	w.json("Instructions.json", samples)
	writeLines(w, "components.jsonl", lines)
}

// fedBench writes a table of triplets with two editors for simple instructions, and components from a simulated
// judge.
func (s *set) fedBench(w *folder) {
	var triplets, lines []map[string]any
	for i, g := range s.groups {
		source, gt := "pictures/"+g[0].Group+"-source.png", "pictures/"+g[0].Group+"-gt.png"
		triplets = append(triplets, map[string]any{"sample": g[0].Group, "source": source, "gt": gt,
			"expression": expressions[i%len(expressions)], "simple_instruction": g[0].Instruction,
			"dense_instruction": g[0].Instruction + " (" + g[0].TargetCaption + ")"})
		places := map[string]string{source: g[0].Source, gt: g[0].Target}
		for k, editor := range twoEditors {
			places[editor+"/simple/"+g[k].Group+".png"] = g[k].Edit
			v := judged(g[k])
			lines = append(lines, map[string]any{"sample": g[k].Group, "method": editor, "instructions": "simple",
				"id": quality(g[k]) / 10, "bg_rmse": 20 - quality(g[k]), "pq": quality(g[k]), "sc": v, "gta": v,
				"lpips_src_trg": 0.1 * g[k].truth.Degree, "lpips_src_gt": 0.1})
		}
		for to, from := range places {
			w.copy(from, to)
		}
	}
	writeLines(w, "components/judged.jsonl", lines)
	writeLines(w, "triplets.jsonl", triplets)
}

// mvei writes MVEI's layout: two statements about each target, one of which describes another.
func (s *set) mvei(w *folder) {
	classes := []string{"sentiment polarity", "emotion interpretation", "scene context", "perception subjectivity"}
	var entries []map[string]any
	for i, g := range s.groups {
		id := g[0].Group + ".png"
		w.copy(g[0].Target, "images/"+id)
		other := s.groups[(i+1)%len(s.groups)][0]
		class := classes[i%len(classes)]
		var statements []map[string]string
		add := func(label, caption string) {
			statements = append(statements, map[string]string{"statement": "This is " + caption + ".", "label": label,
				"class": class, "subclass": class})
		}
		add("correct", g[0].TargetCaption)
		if other.TargetCaption != g[0].TargetCaption {
			add("incorrect", other.TargetCaption)
		}
		entries = append(entries, map[string]any{"image_id": id, "ov_emotion": []string{}, "statement_list": statements})
	}
	w.json("MVEI_metadata.json", entries)
}
